// Retiring pages of the slab heap: where all the blocks of a run (64 KiB of a class's slots) are dead and have left the
// quarantine, its pages are protected and their memory goes back, instead of their slots being used again. Every later access
// faults at its instruction.
//
//   evicted -> held until the run's other blocks are dead, too -> retired | reusable, where that takes too long
//                                                                 retired -> fresh, in an empty run
//
// An empty run has no memory, nor have its records: its slots are as fresh as those that were never used, and are handed out
// before those. Until then its pages stay protected, where guards do that.
//
// Slots are held in phases, as far as the budget of processor time for pages reaches (page_time.h), and always when memory is
// given back; there single pages of incomplete runs are retired as well. Runs become empty oldest first,
// once `retired_bytes` are held, or records of retired slots take too much memory, or the class's region is used up.
// Slow path; one lock.

#ifndef ZG_RETIRE_H
#define ZG_RETIRE_H

#include "blocks/slab.h"
#include "platform/base.h"
#include "threads/thread.h"

// Whether evicted slots are to be held now. True: the lock is taken, until zg_retire_leave.
bool zg_retire_enter(const struct zg_thread *thread);
// An evicted slot, whose block was verified, is held. False: it is to be used again.
bool zg_retire_hold(struct zg_slab *slab, uint32_t class, uint32_t index);
void zg_retire_leave(const struct zg_thread *thread);

// Whether a large block that was evicted is to be retired, and not used again.
bool zg_retire_wants_span(uint64_t bytes);

// Retires all that is dead: from the first call on what this thread evicts is held, the second retires it, and the free slots of
// the central lists. What cannot be retired is free afterwards. Returns the bytes given back. The lock is taken in between.
void zg_retire_all_begin(const struct zg_thread *thread);
uint64_t zg_retire_all_end(void);
// The class has no free slots: those of its oldest empty run are the next. False where there is none.
bool zg_retire_open(uint32_t class);
// The class has no fresh slots either: its oldest retired run becomes empty, and is opened. False where there is none.
bool zg_retire_reuse(uint32_t class);

// What slots of retired runs and pages and of empty runs come to: address space without memory. Any context.
uint64_t zg_retire_bytes(void);

// No block is known at the address, but blocks were there: what was known of them went with the memory. Any context; no lock.
bool zg_retire_is_forgotten(uint64_t pointer);

void zg_retire_lock(void);
void zg_retire_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// What is broken, in words; NULL where all is well.
// Calls `slot` for each slot of an empty run.
const char *zg_retire_broken(void (*slot)(uint32_t class, uint64_t index));
#endif

#endif
