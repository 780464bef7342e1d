// Writing findings out: one JSON line each where report_path is set, otherwise a short text on standard error.
// Cold and signal context; one lock, the last in rank. No allocation, plain system calls.

#ifndef ZG_REPORT_H
#define ZG_REPORT_H

#include "findings/finding.h"
#include "platform/text.h"

// Opens the report. Start-up, and the child of a fork where the path names the process.
void zg_report_open(void);
void zg_report_write(const struct zg_finding *finding);
// {"block":{…},"stacks":{…}} of the block at an address. False: the heap never had one there.
bool zg_report_describe(uint64_t address, struct zg_text *text);
void zg_report_lock(void);
void zg_report_unlock(bool reset);
void zg_report_after_fork_in_child(void);
// The descriptors that are open for reports, in no order. Returns how many, at most 2.
int zg_report_descriptors(int descriptors[2]);

#endif
