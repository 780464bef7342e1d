// Start, fork and exit of the guarded process. Order: docs/architecture/fork-signals-filters.md.

#ifndef ZG_RUNTIME_H
#define ZG_RUNTIME_H

#include "platform/base.h"

// Returns whether zg_runtime_start has run and the heap can be entered.
bool zg_runtime_is_started(void);
// Called by the preload library's constructor. Sets up statistics, report, signals and fork handlers.
void zg_runtime_start(void);
// Do the work of the fork handlers, for processes created without them (entry/forks.h).
void zg_runtime_before_bare_fork(void);
void zg_runtime_after_bare_fork(bool child);
// Interposes __register_atfork, which pthread_atfork calls: registers the runtime's own handlers before any others.
// Returns an errno value, 0 on success.
int zg_runtime_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
// Called by the library's destructor: verifies the heap and closes the report.
void zg_runtime_finish(void);

#endif
