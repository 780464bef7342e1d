// Processes made without fork's handlers: by _Fork, by clone without CLONE_VM, or by syscall(2) with a fork or clone
// number. The runtime does the same as around fork: it copies blocks in windows (pages/window.h), and no thread that
// the child lacks holds a lock of the runtime.
// Any context, like _Fork.

#ifndef ZG_FORKS_H
#define ZG_FORKS_H

#include "platform/base.h"

// Returns true if the system call makes a process with its own memory that continues on the caller's stack.
bool zg_forks_by_number(long number, long a, long b);
// Returns true if clone with these flags makes a process with its own memory.
bool zg_forks_by_flags(uint64_t flags);
// Call before a seccomp filter or RLIMIT_AS can prevent fork from copying blocks in windows.
void zg_forks_leave_windows(const uint64_t *frame);

#endif
