// Copies another process by fork, so that its memory can be read while it runs. For single-threaded processes that have
// stopped all threads of the other process (zg_thread_seize).
// Functions return 0 or more, or -errno, unless stated otherwise.

#ifndef ZG_UNWIND_SNAPSHOT_H
#define ZG_UNWIND_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

// Whether a stopped thread may execute other code for a while. False in a restartable sequence (rseq), because the
// kernel would not restart the sequence afterwards, and in 32-bit code.
bool zg_snapshot_may_use(int tid);
// Makes the stopped thread fork its process. The thread runs the snapshot code at `code`, whose array is at `words`
// (struct zg_layout_snapshot). The copy shares no descriptor with the process, is no child of it, and stays stopped;
// the kernel kills it with the calling process. Afterwards the thread is stopped again, with its former registers and
// signal mask. `*signal` is a signal that arrived meanwhile (0: none); pass it to zg_thread_detach. -ECHILD: the
// process is a reaper of orphans. -ETIMEDOUT: the fork took longer than `milliseconds`.
int zg_snapshot_make(int tid, uint64_t code, uint64_t words, int milliseconds, int *copy, int *signal);
// Whether the copy still exists. The kernel may kill it if memory is short.
bool zg_snapshot_exists(int copy);
// Kills the copy, and waits for its end.
void zg_snapshot_end(int copy);
// Whether this process's seccomp filters allow the system calls of the snapshot code and of the copy. Tries the calls
// in a child; false if no child can be started.
bool zg_snapshot_calls_pass(void);

#endif
