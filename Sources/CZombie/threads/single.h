// Whether the process has one thread: what only others could disturb need not be guarded then.
// Any context.

#ifndef ZG_SINGLE_H
#define ZG_SINGLE_H

#include "platform/base.h"

// libc's own word (glibc 2.32: sys/single_threaded.h), or one of ours.
extern const char *zg_single;
ZG_INLINE bool zg_is_single_threaded(void) { return *zg_single; }

// Start-up.
void zg_single_init(void);
// A thread is about to be made, or one is there that nobody has announced. Only where libc does not tell.
void zg_single_end(void);

#endif
