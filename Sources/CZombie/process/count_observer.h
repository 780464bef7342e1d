// Observes retains and releases of Swift objects (history_per_object, trace_class, race_delay): Swift's functions get detours, which tell
// the observer object and caller before the count is changed. What is observed goes to zombies/count_history.h.
// Off unless asked for: then nothing of the program is touched.

#ifndef ZG_COUNT_OBSERVER_H
#define ZG_COUNT_OBSERVER_H

#include "platform/base.h"

// At the start, while the process has one thread: observes a Swift runtime that is loaded already.
void zg_count_observer_start(void);

#endif
