// What guarding may cost: the processor time that it takes is measured, and compared with the process's own.
//
// The whole (overhead): each guarded allocation and free is measured, and as much is guarded as the allowed share of the
// process's own time reaches for; the program's own allocator serves the other blocks. Contexts, told apart by return address and stack pointer, have
// an interval each, which grows with the number of their blocks that were guarded: rare ones come first. What is guarded is
// guarded in full: stacks, fill, verification, pages.
//
// Fenced blocks cost system calls, so their share is steered alone (fence_overhead): the time of each is added up, and what
// goes beyond 8 ms and the allowed share of the process's processor time is declined.
// zg_budget_fence_allows: slow path. No lock; counters are approximate where threads meet.

#ifndef ZG_BUDGET_H
#define ZG_BUDGET_H

#include "heap/heap.h"
#include "platform/arch.h"
#include "platform/base.h"
#include "process/thread.h"

void zg_budget_init(void);
void zg_budget_before_fork(void);
void zg_budget_after_fork_in_child(void);
// A time in ticks of the processor's clock (zg_arch_ticks) in nanoseconds, and back.
uint64_t zg_budget_ns(uint64_t ticks);
uint64_t zg_budget_ticks(uint64_t ns);

// Whether another block may be fenced. Contexts of which none was yet come `first`: the others leave them half of it.
bool zg_budget_fence_allows(bool first);
// The time that fencing took since `since` (zg_arch_ticks). A thread that was put aside meanwhile did not spend it: it counts
// only as far as system calls for so many pages take.
void zg_budget_fence_spent(uint64_t since, uint64_t pages);

// The same for work whose price is paid later, by the faults of fresh pages.
void zg_budget_fence_charge(uint64_t pages);

// With a limit: whether the program's own allocator is to serve this block of the caller with this return address. Hot path.
ZG_INLINE bool zg_budget_passes(uint64_t return_address);
// As zg_heap_allocate and zg_heap_free, measured.
void *zg_budget_allocate(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero, const uint64_t *frame);
void zg_budget_free(void *block, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);

// -- inline part --

void zg_budget_draw(struct zg_thread *thread, uint64_t context);

ZG_INLINE bool zg_budget_passes(uint64_t return_address) {
    uint64_t key = (return_address * UINT64_C(0x9e3779b97f4a7c15)) ^ zg_arch_stack_end();
    uint64_t context = key * UINT64_C(0xd6e8feb86659fd93) >> (64 - ZG_BUDGET_CONTEXT_BITS);
    // A thread's first block is guarded. Threads after their end share their counts: approximate, like all others.
    struct zg_thread *thread = zg_thread_self;
    if (ZG_UNLIKELY(!thread)) return false;
    if (ZG_LIKELY(thread->budget_left[context])) {
        thread->budget_left[context]--;
        return true;
    }
    zg_budget_draw(thread, context);
    return false;
}

#endif
