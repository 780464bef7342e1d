// Opens the files of the run that this process belongs to (zg_run_directory.h).
// Cold and signal context; takes no lock. Descriptors are close-on-exec. Negative results are errno values.

#ifndef ZG_RUN_DIRECTORY_ACCESS_H
#define ZG_RUN_DIRECTORY_ACCESS_H

#include "include/zg_run_directory.h"
#include "platform/base.h"

// True if the option report_path points into the directory of a run.
bool zg_run_is_named(void);
// Creates a pair log of this process for appending. Negative on failure.
int zg_run_create_pair_log(void);
// Opens the file of allocation stacks that earlier runs watched (stacks/watched.h). Negative on failure.
int zg_run_open_watched(void);
// Opens the run's file of raw findings for appending. If this process may not open it (it runs as another user than
// zguard), creates a file of its own and sets `*is_own`. -ENOENT after the run's end.
int zg_run_open_findings(bool *is_own);
// Opens the page of the run, a memfd of at least `bytes` that cannot shrink (settings/coverage.h).
int zg_run_open_page(uint64_t bytes);
// zg_run_count_unwritten counts a finding that could not be written to any file; zg_run_count_unmapped counts a process
// that cannot map the page of the run.
void zg_run_count_unwritten(void);
void zg_run_count_unmapped(void);
// Sends a message to zguard.
enum zg_run_sent {
    zg_run_delivered,
    // The kernel refused the message, or zguard's queue is full: the caller may try again. Also if there is no run.
    zg_run_refused,
    zg_run_is_over, // zguard has ended or was killed
};
enum zg_run_sent zg_run_send(const struct zg_run_message *message);

#endif
