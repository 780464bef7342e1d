// Prepares the runtime for a seccomp filter that the program installs. Any context in which a program may do that.

#ifndef ZG_FILTERS_H
#define ZG_FILTERS_H

#include "platform/base.h"

// `program` points to a struct sock_fprog, and may be invalid. From here on the runtime checks each of its calls with
// the filter; what it needs later is made ready. `all_threads`: the filter applies to other threads, too. Returns a
// number for zg_filters_after.
int zg_filters_before(const void *program, bool all_threads, const uint64_t *frame);
// Records whether the kernel accepted the filter.
void zg_filters_after(int number, bool taken);

// Strict mode, which allows read and write alone: memory is committed before, and no other call is made afterwards.
void zg_filters_before_strict(const uint64_t *frame);
void zg_filters_after_strict(bool taken);

#endif
