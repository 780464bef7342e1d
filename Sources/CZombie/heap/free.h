// Frees blocks. The calling thread is in the runtime. Hot path.

#ifndef ZG_FREE_H
#define ZG_FREE_H

#include "heap/mismatch.h"
#include "threads/thread.h"

// From this block size on, free() releases the pages at once instead of filling them. Filling costs as much as faulting
// in fresh pages, and every later access to a released page faults at the accessing instruction.
#define ZG_RETIRE_LEAST ((uint64_t)1 << 20)

// Frees a block; passes the block of another allocator to that allocator. `size` is the argument of a sized function,
// otherwise ZG_ANY_SIZE. Reports a finding if no live block starts at the address, or if the block does not match the
// deallocator or the size.
void zg_free_entered(struct zg_thread *thread, uint64_t pointer, enum zg_deallocator deallocator, uint64_t size);

// Result of zg_free_quickly, the inline path for a live block of a slab. This path is taken only if the thread's caches
// contain the call stack and the pair.
enum zg_free_result {
    zg_free_declined, // nothing was done: the block is no live slot, its pair is not cached, or there may be a finding
    zg_free_claimed,  // the block is in state freeing, but not filled: call zg_free_finish with `pending`
    zg_free_done,
    zg_free_done_list_full, // done, and the list of pending blocks is full: call zg_free_flush_pending
};
// A block in state freeing, between live and quarantined.
struct zg_pending_free {
    struct zg_block *block;
    struct zg_slab *slab;
    uint64_t index;
    uint32_t header; // the block's header, with state freeing
};
// The arguments of a call of free, delete, or a similar function.
struct zg_free_call {
    uint64_t pointer; // as passed, with its memory tag
    enum zg_deallocator deallocator;
    uint64_t size;         // as passed to a sized function; ZG_ANY_SIZE otherwise
    const uint64_t *frame; // frame address of the published function
    uint32_t stack;        // id of the call stack; 0: not captured yet
};
// Fast path of a free; the result says what the caller must still do. `is_tagged`: memory tags are on (blocks/tags.h).
enum zg_free_result zg_free_quickly(struct zg_thread *thread, struct zg_free_call call, struct zg_pending_free *pending,
                                    bool is_tagged);
void zg_free_finish(struct zg_thread *thread, uint64_t address, struct zg_pending_free pending);
void zg_free_flush_pending(struct zg_thread *thread);

// Reports the free of an address in the heap that is not the start of a live block. If the address is off only by an
// array cookie (delete used for delete[] or the other way round), the block is freed after the report.
void zg_free_report_bad(uint64_t pointer, enum zg_deallocator deallocator);
// Reports a write behind the end of a tagged block. Detects the write by a change of the fill between the block's end
// and the end of the block's last 16 bytes, which have one tag.
void zg_free_check_gap(const struct zg_slab *slab, uint64_t index, uint64_t size);
// Does the check of zg_free_check_gap for all live blocks, if memory tags are on. Returns the number of findings. The
// thread is in the runtime.
uint64_t zg_free_verify_live(const char *found_by);
// Call if zg_mismatch_is_possible returns true. Reports the mismatch unless zg_mismatch_check excludes it.
void zg_free_check_mismatch(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size);

#endif
