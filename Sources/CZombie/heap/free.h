// Blocks die, by a thread that is entered. Hot path.

#ifndef ZG_FREE_H
#define ZG_FREE_H

#include "heap/mismatch.h"
#include "threads/thread.h"

// Larger blocks give their pages back at once when they are freed: filling them costs as much as faulting fresh pages in,
// and every later access is seen at the instruction.
#define ZG_RETIRE_LEAST ((uint64_t)1 << 20)

// `size` is what a sized function was told, ZG_ANY_SIZE otherwise. What is no live block is a finding, unless another
// allocator made it.
void zg_free_entered(struct zg_thread *thread, uint64_t pointer, enum zg_deallocator deallocator, uint64_t size);

// The same for a live block of a slab, in line, where the thread knows the stack: `stack`, or 0 where it is to be asked. `is_tagged`: there
// are tags (blocks/tags.h).
enum zg_freed {
    zg_freed_not,    // nothing was done: it is no such block, or its free may be a finding
    zg_freed_partly, // zg_free_finish goes on with `dying`
    zg_freed_whole,
    zg_freed_last, // so many blocks wait that they have to be handed over (zg_free_hand_over)
};
struct zg_pending_free {
    struct zg_block *block;
    struct zg_slab *slab;
    uint64_t index;
    uint32_t header; // state freeing
};
// A call of free, delete or their kin.
struct zg_free_call {
    uint64_t pointer; // with its tag
    enum zg_deallocator deallocator;
    uint64_t size;         // as passed to a sized function; ZG_ANY_SIZE otherwise
    const uint64_t *frame; // frame address of the published function
    uint32_t stack;        // id of the call stack; 0: not captured yet
};
enum zg_freed zg_free_quickly(struct zg_thread *thread, struct zg_free_call call, struct zg_pending_free *pending,
                              bool is_tagged);
void zg_free_finish(struct zg_thread *thread, uint64_t address, struct zg_pending_free pending);
void zg_free_hand_over(struct zg_thread *thread);

// An address in the heap that is not a live block's start is freed: reports what it is.
void zg_free_report_bad(uint64_t pointer, enum zg_deallocator deallocator);
// Of a tagged block: reports what was written behind it within its last 16 bytes.
void zg_free_check_gap(const struct zg_slab *slab, uint64_t index, uint64_t size);
// The same of all live blocks: how many findings. The thread is entered.
uint64_t zg_free_verify_live(const char *found_by);
// A mismatch is possible: reports it where it is one.
void zg_free_check_mismatch(struct zg_thread *thread, uint64_t address, enum zg_deallocator deallocator, uint64_t size);

#endif
