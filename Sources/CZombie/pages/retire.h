// Retiring pages of the slab heap: where all blocks of a run (64 KiB of a class's slots) are dead and have left the
// quarantine, its pages become inaccessible and their memory goes back, instead of their slots being used again. Every
// later access faults at its instruction.
//
//   evicted -> held until the run's other blocks are dead, too -> retired | reusable, where that takes too long
//                                                                 retired -> fresh, in an empty run
//
// An empty run has no memory, nor have its records: its slots are as fresh as if they had never been used, and are
// handed out before such slots. Until then its pages stay protected, where guards do that.
//
// Slots are held in phases, as far as the budget of processor time for pages allows (page_time.h), and always when
// memory is given back; then single pages of incomplete runs are retired as well. Runs become empty oldest first, once
// `retired_bytes` are held, or records of retired slots take too much memory, or the class's region is used up.
// Slow path; one lock.
//
// The files, from the bottom to the top: runs · retire_class · retire, which holds slots.

#ifndef ZG_RETIRE_H
#define ZG_RETIRE_H

#include "blocks/slab.h"
#include "platform/base.h"
#include "threads/thread.h"

// Evicted slots are to be held now. True: the lock is taken, until zg_retire_leave.
bool zg_retire_enter(const struct zg_thread *thread);
// Holds an evicted slot, whose block was verified. False: the slot is to be used again.
bool zg_retire_hold(struct zg_slab *slab, uint32_t class, uint32_t index);
void zg_retire_leave(const struct zg_thread *thread);

// A large block that was evicted is to be retired, and not used again.
bool zg_retire_wants_span(uint64_t bytes);

// Retires all dead slots: between these two calls all slots that this thread evicts are held; the second call retires
// them, and the free slots of the central lists. Slots that cannot be retired are free afterwards. Returns the bytes
// given back. The lock is held between the calls.
void zg_retire_all_begin(const struct zg_thread *thread);
uint64_t zg_retire_all_end(void);
// The class has no free slots: opens its oldest empty run, whose slots are handed out next. False where there is none.
bool zg_retire_open(uint32_t class);
// The class has no fresh slots either: makes its oldest retired run empty, and opens it. False where there is none.
bool zg_retire_reuse(uint32_t class);

// Bytes of retired slots and of empty runs: address space without memory. Any context.
uint64_t zg_retire_bytes(void);

// No block is known at the address, but there were blocks: their records were given back with their memory. Any
// context; no lock.
bool zg_retire_is_forgotten(uint64_t pointer);

void zg_retire_lock(void);
void zg_retire_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// Says what is broken; NULL where nothing is. Calls `see` for each slot of an empty run.
const char *zg_retire_broken(void (*see)(uint32_t class, uint64_t index));
#endif

#endif
