// Checks that slabs, spans, quarantine, retired runs and isolated blocks agree: every slot and span is in exactly one
// place, the one that belongs to its state, and counters match. For test builds (-DZG_CHECK_INVARIANTS); compiled out
// of the library.
// No other thread may be in the runtime: per-thread state is read without a lock.

#ifndef ZG_INVARIANTS_H
#define ZG_INVARIANTS_H

#include "platform/base.h"

#ifdef ZG_CHECK_INVARIANTS
// Returns a description of the first violation, NULL if there is none. Maps memory of its own. Test programs look the
// function up by name.
__attribute__((visibility("default"))) const char *zg_invariants_check(void);
#else
ZG_INLINE const char *zg_invariants_check(void) { return NULL; }
#endif

#endif
