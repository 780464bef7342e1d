// What the runtime does when the program puts itself under a filter of system calls (seccomp). Any context that may do that.

#ifndef ZG_FILTERS_H
#define ZG_FILTERS_H

#include "platform/base.h"

// `program` is a struct sock_fprog, wherever it points. From here on the filter is asked before each call of the runtime's;
// what is to be there later is made ready. `all_threads`: it is for the other threads, too. A number for zg_filters_after.
int zg_filters_before(const void *program, bool all_threads, const uint64_t *frame);
// How the kernel's answer was.
void zg_filters_after(int number, bool taken);

// The strict mode, in which nothing may be called but read and write: memory is opened before; after it nothing is called any more.
void zg_filters_before_strict(const uint64_t *frame);
void zg_filters_after_strict(bool taken);

#endif
