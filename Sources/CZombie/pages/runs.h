// Runs: 64 KiB of slots of one class, which are retired together. A retired run is protected, and its slots are not
// used again until it becomes empty: then it has no memory, nor have the records of its slots, which are as fresh as if
// they had never been used. For runs.c, retire_class.c and retire.c; others call retire.h.
// Slow path; under the lock of retired runs.

#ifndef ZG_RUNS_H
#define ZG_RUNS_H

#include "blocks/slab.h"
#include "pages/isolation_policy.h"
#include "pages/queue.h"
#include "platform/lock.h"

enum { ZG_RUN_SHIFT = ZG_POLICY_RUN_SHIFT };
#define ZG_RUN_BYTES (UINT64_C(1) << ZG_RUN_SHIFT)

// A run has the slots that begin in it. Invariants:
// 1. dead counts the slots in state held or retired.
// 2. The run is empty, or all of it is retired and protected, or neither.
// 3. The slots of an empty run are fresh.
struct zg_run {
    uint16_t dead;
    uint8_t protection;  // enum zg_protection of its pages
    uint8_t touched : 1, // by the phase that goes on
        empty : 1,
        counted : 1,   // the last of the runs that were protected together stands for the mappings that this cost
        forgotten : 1; // it was empty once: slots that are fresh had blocks
    union {
        uint32_t next; // in the queue of retired or of empty runs
        // In neither queue: a bit for each page that was protected by itself, and stays so until the run is retired.
        uint32_t guarded;
    };
};

// Invariants:
// 1. Runs of a class are accessible up to `committed`.
// 2. The queues hold all retired and all empty runs, each by its number + 1.
// 3. The sums are those of slots in state retired, and of empty runs.
struct zg_runs {
    struct zg_lock lock;
    struct zg_run *runs[ZG_CLASS_COUNT];
    uint64_t committed[ZG_CLASS_COUNT];                             // read without the lock, too
    struct zg_queue retired[ZG_CLASS_COUNT], empty[ZG_CLASS_COUNT]; // `oldest` is read without the lock, too
    uint64_t retired_bytes, retired_slots, empty_bytes;
    bool was_trimmed;    // memory was given back on request
    uint32_t next_class; // whose oldest retired run becomes empty next
};
extern struct zg_runs zg_runs;

ZG_INLINE uint32_t zg_run_of(const struct zg_slab *slab, uint64_t index) {
    return (uint32_t)(index * slab->slot_bytes >> ZG_RUN_SHIFT);
}
// The first slot of a run; that of the next run ends it.
ZG_INLINE uint64_t zg_run_first_slot(const struct zg_slab *slab, uint64_t run) {
    return ((run << ZG_RUN_SHIFT) + slab->slot_bytes - 1) / slab->slot_bytes;
}
ZG_INLINE struct zg_run *zg_run_by_number(uint32_t class, uint64_t number) { return &zg_runs.runs[class][number]; }

ZG_INLINE void zg_slot_set_state(struct zg_block *block, enum zg_state state) {
    uint32_t header = __atomic_load_n(&block->header, __ATOMIC_RELAXED);
    __atomic_store_n(&block->header, zg_header_in_state(header, state), __ATOMIC_RELEASE);
}
ZG_INLINE enum zg_state zg_slot_state(const struct zg_slab *slab, uint64_t index) {
    return zg_header_state(__atomic_load_n(&slab->blocks[index].header, __ATOMIC_RELAXED));
}

// Pages are retired: with on_finding=continue contents are needed later.
bool zg_runs_may_be_retired(void);
// The record of a run, made accessible where it is not. NULL where there is no memory for it.
struct zg_run *zg_run_make(uint32_t class, uint64_t number);
// All its slots are held or retired.
bool zg_run_is_complete(uint32_t class, uint64_t number);
// Adds slots (or takes them away) in the sums of retired slots.
void zg_runs_count_retired(struct zg_slab *slab, int64_t slots);
// The pages of runs [from, to) that no other run has a part in: a page that neighbours share belongs to the one that
// dies last.
void zg_runs_pages(uint32_t class, uint64_t from, uint64_t to, uint64_t *low, uint64_t *high);
// Retires runs [from, to), all complete, and not retired yet. Returns the bytes given back; 0 where they could not be
// protected.
uint64_t zg_runs_retire(uint32_t class, uint64_t from, uint64_t to);
// The run's slots in this state become free.
void zg_run_free_slots(uint32_t class, uint64_t number, enum zg_state state);
// Makes a run empty whose pages have no memory any more.
void zg_run_make_empty(uint32_t class, uint64_t number);
// Makes retired runs empty, the oldest of a class first and the classes in turn, until address space and records are
// within their bounds.
void zg_runs_keep_within_bounds(void);

#endif
