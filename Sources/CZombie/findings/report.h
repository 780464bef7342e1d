// Writes findings: as JSON lines if report_path is set, otherwise as short texts on standard error. Cold and signal
// context; one lock, which is the innermost. No allocation, plain system calls.

#ifndef ZG_REPORT_H
#define ZG_REPORT_H

#include "findings/finding.h"
#include "findings/report_output.h"
#include "platform/text.h"

// Writes a finding if `is_new` returns true, and returns that result. `is_new` is called under the lock: a thread that
// learns that a finding is known may end the process, and the finding must have been written by then. `is_new` may
// complete the finding.
bool zg_report_write(struct zg_finding *finding, bool (*is_new)(struct zg_finding *));
// Writes the rest of the text of a finding that this thread has reported: the whole text if it was postponed, or the
// omitted stacks if the finding ends the program.
void zg_report_complete(const struct zg_finding *finding, bool ends);
// Writes the repeats that are due.
void zg_report_write_repeats(void);
// Writes all repeats, and on standard error how many findings could not be written. Call at the process's end.
void zg_report_end(void);
// Writes {"block":{…},"stacks":{…}} of the block at an address. Returns false if the address was never part of a block.
bool zg_report_describe(uint64_t address, struct zg_text *text);
// Writes [{"pc":…},…] for frames as the unwinder returns them.
void zg_report_describe_stack(const uint64_t *frames, int count, struct zg_text *text);
// Call after the process has changed its user. If it has given up root for good, gives it a report file of its own:
// with the run's file, the process could truncate the reports of others.
void zg_report_after_user_change(void);
void zg_report_lock(void);
void zg_report_unlock(bool reset);
// Returns whether the calling thread is writing a report or holds the lock for a fork.
bool zg_report_is_mine(void);
// Call before this thread ends the process: waits for lines that other threads are writing, writes all repeats, and
// keeps the lock so that no other line begins afterwards.
void zg_report_close_for_good(void);
// Abandons the report that this thread is writing: releases the lock.
void zg_report_abandon(void);

#endif
