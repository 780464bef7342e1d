// Observes retains and releases of Swift objects (history_per_object, trace_class, race_delay). Detours in the Swift
// runtime pass the object and the caller to the observer before the count changes. Changes are recorded in
// zombies/count_history.h. Off by default: then no code is patched.

#ifndef ZG_COUNT_OBSERVER_H
#define ZG_COUNT_OBSERVER_H

#include "platform/base.h"

// Call at start-up while the process has one thread. Observes a Swift runtime that is already loaded.
void zg_count_observer_start(void);

#endif
