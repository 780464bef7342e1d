// Whether slabs, spans, quarantine, retired runs and fenced blocks agree: every slot and every span is in exactly one place,
// the one that its state names, and what is counted is what is there. For test builds, with -DZG_CHECK_INVARIANTS; nothing of
// it is in the library.
// Nobody else may be inside the runtime meanwhile: what threads hold is read without a lock.

#ifndef ZG_INVARIANTS_H
#define ZG_INVARIANTS_H

#include "platform/base.h"

#ifdef ZG_CHECK_INVARIANTS
// What is broken, in words; NULL where all is well. Takes memory of its own from the kernel. Test programs find it by name.
__attribute__((visibility("default"))) const char *zg_invariants_broken(void);
#else
ZG_INLINE const char *zg_invariants_broken(void) { return NULL; }
#endif

#endif
