// Start, fork and end of the guarded process. Order: ARCHITECTURE.md.

#ifndef ZG_RUNTIME_H
#define ZG_RUNTIME_H

#include "platform/base.h"

// zg_runtime_start has run, and the heap can be entered.
bool zg_runtime_is_started(void);
// From the preload library's constructor: statistics, report, signals, fork handlers.
void zg_runtime_start(void);
// The same as fork's handlers, for processes that are made without those (entry/forks.h).
void zg_runtime_before_bare_fork(void);
void zg_runtime_after_bare_fork(bool child);
// What pthread_atfork calls in libc: the runtime's own handlers are registered before any other's. An error number.
int zg_runtime_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
// From its destructor: verification.
void zg_runtime_finish(void);

#endif
