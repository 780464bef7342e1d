// A thread of our own that looks after memory, once there is enough to give back. Cold.

#ifndef ZG_WATCH_H
#define ZG_WATCH_H

#include "platform/base.h"

// After zg_maintenance_start.
void zg_watch_start(void);
void zg_watch_after_fork_in_child(void);
// The program is about to make a thread of its own: the occasion to make ours. Not entered.
void zg_watch_before_thread(void);

// The stack that begins at the published function's frame ends at the process's or a thread's first function, and neither
// the loader nor, but for those outermost functions, libc stands in it.
bool zg_watch_stack_is_plain(const uint64_t *frame);

// No thread of ours from here on: waits, for a moment, until a running one has left. For a filter of system calls that all threads
// get, which may not know what a thread's end calls.
void zg_watch_stop(void);

#endif
