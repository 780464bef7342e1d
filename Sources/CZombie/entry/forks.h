// Processes that are made without fork's handlers: _Fork, clone without CLONE_VM, and both by number. The runtime does around them what
// it does around fork: blocks in windows are copied (pages/window.h), and no lock of ours is held by a thread that the child lacks.
// Any context, as _Fork.

#ifndef ZG_FORKS_H
#define ZG_FORKS_H

#include "platform/base.h"

// The system call makes a process with memory of its own, that goes on on the caller's stack.
bool zg_forks_by_number(long number, long a, long b);
// The same of clone's flags.
bool zg_forks_by_flags(uint64_t flags);
// Before what forbids a fork to copy blocks in windows takes effect: a limit of address space, a filter of system calls.
void zg_forks_leave_windows(const uint64_t *frame);

#endif
