// Runs: 64 KiB of slots of one class, which are retired together. A retired run is protected, and its slots are not
// reused until it becomes empty. An empty run has no memory, and neither have the records of its slots; the slots have
// state fresh, like slots that were never used. For runs.c, retire_class.c and retire.c; other files use retire.h.
// Slow path; under the lock of retired runs.

#ifndef ZG_RUNS_H
#define ZG_RUNS_H

#include "blocks/slab.h"
#include "pages/isolation_policy.h"
#include "pages/queue.h"
#include "platform/lock.h"

enum { ZG_RUN_SHIFT = ZG_POLICY_RUN_SHIFT };
#define ZG_RUN_BYTES (UINT64_C(1) << ZG_RUN_SHIFT)

// A run consists of the slots that begin in it. Invariants:
// 1. dead counts the slots in state held or retired.
// 2. The run is empty, or completely retired and protected, or neither.
// 3. The slots of an empty run are fresh.
struct zg_run {
    uint16_t dead;
    uint8_t protection;  // enum zg_protection of the run's pages
    uint8_t touched : 1, // the current phase holds slots of the run
        empty : 1,
        // This run is the last of those that were protected together, and counts for the mappings of all of them.
        counted : 1,
        forgotten : 1; // the run was empty before: its slots had blocks, even if they are fresh now
    union {
        uint32_t next; // next run in the queue of retired or of empty runs
        // If the run is in neither queue: bit mask of the run's pages that were protected alone, and stay so until the
        // whole run is retired.
        uint32_t guarded;
    };
};

// Invariants:
// 1. The records of a class's runs are accessible up to `committed`.
// 2. The queues contain all retired and all empty runs; a run's number in a queue is its number + 1.
// 3. The sums count the slots in state retired, and the empty runs.
struct zg_runs {
    struct zg_lock lock;
    struct zg_run *runs[ZG_CLASS_COUNT];
    uint64_t committed[ZG_CLASS_COUNT];                             // also read without the lock
    struct zg_queue retired[ZG_CLASS_COUNT], empty[ZG_CLASS_COUNT]; // `oldest` is also read without the lock
    uint64_t retired_bytes, retired_slots, empty_bytes;
    bool was_trimmed;    // memory was released on request
    uint32_t next_class; // class whose oldest retired run becomes empty next
};
extern struct zg_runs zg_runs;

ZG_INLINE uint32_t zg_run_of(const struct zg_slab *slab, uint64_t index) {
    return (uint32_t)(index * slab->slot_bytes >> ZG_RUN_SHIFT);
}
// Returns the first slot of a run. The run ends before the first slot of the next run.
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

// Returns true if pages are retired at all. With on_finding=continue they are not, because contents are needed later.
bool zg_runs_may_be_retired(void);
// Makes the record of a run accessible and returns it. NULL if memory does not suffice.
struct zg_run *zg_run_make(uint32_t class, uint64_t number);
// Returns true if all slots of the run are held or retired.
bool zg_run_is_complete(uint32_t class, uint64_t number);
// Adds a number of slots, which may be negative, to the sums of retired slots.
void zg_runs_count_retired(struct zg_slab *slab, int64_t slots);
// Computes the pages to protect for runs [from, to). Leaves out pages shared with an unprotected run, so that the run
// that is retired last protects a shared page.
void zg_runs_pages(uint32_t class, uint64_t from, uint64_t to, uint64_t *low, uint64_t *high);
// Retires runs [from, to), which are complete and not retired yet. Returns the number of bytes released; 0 if they
// could not be protected.
uint64_t zg_runs_retire(uint32_t class, uint64_t from, uint64_t to);
// Frees those slots of the run that are in this state.
void zg_run_free_slots(uint32_t class, uint64_t number, enum zg_state state);
// Makes a run empty, after the memory of its pages was released: clears the records of its slots.
void zg_run_make_empty(uint32_t class, uint64_t number);
// Makes retired runs empty, the oldest of each class in turn, until address space and records are within their bounds.
void zg_runs_keep_within_bounds(void);

#endif
