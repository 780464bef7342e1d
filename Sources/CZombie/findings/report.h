// Writes findings: as JSON lines if report_path is set, otherwise as short texts on standard error.
// Cold and signal context; one lock, last in rank. No allocation, plain system calls.

#ifndef ZG_REPORT_H
#define ZG_REPORT_H

#include "findings/finding.h"
#include "findings/report_output.h"
#include "platform/text.h"

// Writes a finding if `is_new` says so, and returns that answer. `is_new` is called under the lock: a thread that
// learns that a finding is known may end the process, and by then the finding has been written.
bool zg_report_write(const struct zg_finding *finding, bool (*is_new)(const struct zg_finding *));
// Writes the rest of the text of a finding that this thread has reported: all of it if it was postponed, the omitted
// stacks if the program ends by it.
void zg_report_complete(const struct zg_finding *finding, bool ends);
// Writes the repeats that are due.
void zg_report_write_repeats(void);
// Writes all repeats, and on standard error how many findings could not be written. Call at the process's end.
void zg_report_end(void);
// Writes {"block":{…},"stacks":{…}} of the block at an address. Returns false if the heap never had one there.
bool zg_report_describe(uint64_t address, struct zg_text *text);
// Writes [{"pc":…},…] for frames as the unwinder returns them.
void zg_report_describe_stack(const uint64_t *frames, int count, struct zg_text *text);
// Call after the process has changed its user. If it has given up root for good, it gets a report file of its own in
// place of the run's, which it could truncate.
void zg_report_after_user_change(void);
void zg_report_lock(void);
void zg_report_unlock(bool reset);
// Returns whether the calling thread is writing a report or holds the lock for a fork.
bool zg_report_is_mine(void);
// Call before this thread ends the process: waits for lines that other threads are writing, writes all repeats, and
// keeps the lock so that no line is begun afterwards.
void zg_report_close_for_good(void);
// Abandons the report that this thread is writing: releases the lock.
void zg_report_abandon(void);

#endif
