// Tells whether the process has one thread, so that protection against other threads can be skipped. Any context.

#ifndef ZG_SINGLE_H
#define ZG_SINGLE_H

#include "platform/base.h"

// Points to libc's variable (glibc 2.32: sys/single_threaded.h), or to the runtime's own.
extern const char *zg_single;
ZG_INLINE bool zg_is_single_threaded(void) { return *zg_single; }

// Call at start-up.
void zg_single_init(void);
// Records that a thread is about to be created, or that a thread was seen whose creation was not announced. Only has an
// effect if libc has no such variable.
void zg_single_end(void);

#endif
