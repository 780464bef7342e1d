// The directory of the run that this process belongs to (zg_run_directory.h), where report_path leads into one.
// Cold and signal context; takes no lock. Descriptors are close-on-exec. Negative results are errno values.

#ifndef ZG_RUN_DIRECTORY_ACCESS_H
#define ZG_RUN_DIRECTORY_ACCESS_H

#include "include/zg_run_directory.h"
#include "platform/base.h"

// report_path leads into the directory of a run.
bool zg_run_is_named(void);
// Opens the run's file of raw findings for appending; where this process may not (it continues as another user than
// zguard), a new file of its own, and `*is_own` tells so. -ENOENT where the run is over.
int zg_run_open_findings(bool *is_own);
// Opens the page of the run: a memfd that cannot shrink (settings/coverage.h).
int zg_run_open_page(uint64_t bytes);
// Counts a finding that no file took, or a process without the page.
void zg_run_count_unwritten(void);
void zg_run_count_unknown(void);
// Sends zguard a message.
enum zg_run_sent {
    zg_run_delivered,
    zg_run_refused, // by the kernel, or zguard's queue is full: it may be sent again
    zg_run_is_over, // zguard has ended, or was killed
};
enum zg_run_sent zg_run_send(const struct zg_run_message *message);

#endif
