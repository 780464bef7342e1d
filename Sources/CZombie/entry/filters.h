// Prepares the runtime for a seccomp filter that the program installs. May be called wherever a program may install a
// filter.

#ifndef ZG_FILTERS_H
#define ZG_FILTERS_H

#include "platform/base.h"

// `program` points to a struct sock_fprog, and may be invalid. From here on the runtime checks each of its system calls
// with the filter. Commits memory and opens descriptors that later work needs. `all_threads`: the filter applies to
// other threads, too. Returns a number for zg_filters_after.
int zg_filters_before(const void *program, bool all_threads, const uint64_t *frame);
// Records whether the kernel accepted the filter.
void zg_filters_after(int number, bool taken);

// Prepares for strict mode, which allows read and write alone: memory is committed before, and afterwards the runtime
// makes no other call.
void zg_filters_before_strict(const uint64_t *frame);
void zg_filters_after_strict(bool taken);

#endif
