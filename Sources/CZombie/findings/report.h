// Writing findings out: one JSON line each where report_path is set, otherwise a short text on standard error.
// Cold and signal context; one lock, the last in rank. No allocation, plain system calls.

#ifndef ZG_REPORT_H
#define ZG_REPORT_H

#include "findings/finding.h"
#include "findings/report_output.h"
#include "platform/text.h"

// Writes a finding that `is_new`. Asked under the lock: who finds it known may end the process, and it is written then.
// False: it is known.
bool zg_report_write(const struct zg_finding *finding, bool (*is_new)(const struct zg_finding *));
// What is missing of the text of a finding that this thread has reported: all where it was to be said later, and where the program
// ends by it what it was shortened by.
void zg_report_complete(const struct zg_finding *finding, bool ends);
// Writes lines for what was found again and again, where much of that waits.
void zg_report_write_repeats(void);
// Writes lines for all that was found again. Says on standard error how many findings could not be written. The process's end.
void zg_report_end(void);
// {"block":{…},"stacks":{…}} of the block at an address. False: the heap never had one there.
bool zg_report_describe(uint64_t address, struct zg_text *text);
// [{"pc":…},…] of these frames, as a walk gives them.
void zg_report_describe_stack(const uint64_t *frames, int count, struct zg_text *text);
// The process has changed its user. Where it has given up root's rights for good it gets a file of its own, because it could cut the run's.
void zg_report_after_user_change(void);
void zg_report_lock(void);
void zg_report_unlock(bool reset);
// The calling thread is writing a report, or holds the lock for a fork.
bool zg_report_is_mine(void);
// The process is about to die by this thread: lines that others are writing are completed, what was found again is written,
// and no line is begun after that.
void zg_report_close_for_good(void);
// This thread does not go on with the report that it was writing.
void zg_report_abandon(void);

#endif
