// Whether slabs, spans, quarantine, retired runs and fenced blocks agree: every slot and every span is in exactly one place,
// the one that its state names, and what is counted is what is there. For test builds, with -DZG_CHECK_INVARIANTS; nothing of
// it is in the library.
// Nobody else may be inside the runtime meanwhile: what threads hold is read without a lock.

#ifndef ZG_INVARIANTS_H
#define ZG_INVARIANTS_H

#include "platform/base.h"

#ifdef ZG_CHECK_INVARIANTS
#include "process/thread.h"

// What is broken, in words; NULL where all is well. Takes memory of its own from the kernel. Test programs find it by name.
__attribute__((visibility("default"))) const char *zg_invariants_broken(void);

// The parts of it that each file answers for. They call `slot` for each slot that they keep, `span` for each span.
void zg_thread_visit(void (*visit)(const struct zg_thread *thread));
const char *zg_quarantine_broken(void (*slot)(zg_slot slot), void (*span)(uint32_t number));
const char *zg_retire_broken(void);
const char *zg_span_broken(void (*span)(uint32_t number, bool retired));
const char *zg_fence_broken(void (*span)(uint32_t number, bool retired));
uint32_t zg_span_count(void);
#else
ZG_INLINE const char *zg_invariants_broken(void) { return NULL; }
#endif

#endif
