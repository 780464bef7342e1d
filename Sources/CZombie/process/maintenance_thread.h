// Runs the runtime's own thread, which checks for memory pressure and returns memory to the kernel. Cold.

#ifndef ZG_MAINTENANCE_THREAD_H
#define ZG_MAINTENANCE_THREAD_H

#include "platform/base.h"

// Call after zg_maintenance_start.
void zg_maintenance_thread_start(void);
void zg_maintenance_thread_after_fork_in_child(void);
// Called before the program creates a thread; may start the runtime's thread. The calling thread is not in the runtime.
void zg_maintenance_thread_before_new(void);

// Returns whether the stack trace from `frame` (a published function's frame) is complete up to _start or the thread's
// start, contains no frame of the loader, and contains libc only in its outermost frames.
bool zg_maintenance_thread_stack_is_program_only(const uint64_t *frame);

// Stops the runtime's thread for good and waits at most 200 ms for it to exit. Called before a seccomp filter is
// installed in all threads: the filter may not allow the system calls of a thread's exit.
void zg_maintenance_thread_stop(void);

#endif
