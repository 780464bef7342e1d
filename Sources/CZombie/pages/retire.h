// Retires pages of the slab heap: once all blocks of a run (64 KiB of a class's slots) are freed and have left the
// quarantine, its pages become inaccessible and their memory is released; the slots are not reused. Every later access
// faults at its instruction.
//
//   evicted -> held until the run's other blocks are evicted -> retired | reusable, if that takes too long
//                                                              retired -> fresh, in an empty run
//
// An empty run has no memory, and neither have its records. Its slots have state fresh, like slots that were never
// used, and are allocated before those. Until they are allocated, the run's pages stay protected if guard pages protect
// them.
//
// Evicted slots are held only during a phase. A phase ends when it holds enough bytes, touches too many runs or uses up
// the time budget for pages (page_time.h); after a pause the next eviction within that budget begins another phase.
// When memory is released on request, slots are always held, and single pages of incomplete runs are retired as well.
// The oldest runs become empty once `retired_bytes` are exceeded, records of retired slots take too much memory, or the
// class's region is used up.
// Slow path; one lock.
//
// Files, lowest first: runs · retire_class · retire, which holds slots.

#ifndef ZG_RETIRE_H
#define ZG_RETIRE_H

#include "blocks/slab.h"
#include "platform/base.h"
#include "threads/thread.h"

// Returns true if evicted slots must be held now. The lock is then held until zg_retire_leave.
bool zg_retire_enter(const struct zg_thread *thread);
// Holds an evicted slot, whose block was verified. False if the slot should be reused instead.
bool zg_retire_hold(struct zg_slab *slab, uint32_t class, uint32_t index);
void zg_retire_leave(const struct zg_thread *thread);

// Returns true if an evicted large block should be retired instead of reused.
bool zg_retire_wants_span(uint64_t bytes);

// Retire all freed slots. Between the two calls, all slots that this thread evicts are held. The second call retires
// these slots and the free slots of all classes, frees slots that cannot be retired, and returns the number of
// bytes released. The lock is held between the calls.
void zg_retire_all_begin(const struct zg_thread *thread);
uint64_t zg_retire_all_end(void);
// Opens the oldest empty run of a class without free slots; its slots are allocated next. False if there is none.
bool zg_retire_open(uint32_t class);
// For a class without fresh slots: opens its oldest empty run, or else makes its oldest retired run empty and opens
// that. False if there is neither.
bool zg_retire_reuse(uint32_t class);

// Returns the size of retired slots and of empty runs: address space without memory. Any context.
uint64_t zg_retire_bytes(void);

// Returns true if no block is known at the address although there were blocks: their records were released with their
// memory. Any context; no lock.
bool zg_retire_is_forgotten(uint64_t pointer);

void zg_retire_lock(void);
void zg_retire_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// Returns the name of a broken invariant, or NULL. Calls `see` for each slot of an empty run.
const char *zg_retire_broken(void (*see)(uint32_t class, uint64_t index));
#endif

#endif
