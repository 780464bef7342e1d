// The overhead budget: each guarded allocation and free is measured, and as much is guarded as the allowed share (overhead) of
// the process's own time reaches for; the program's own allocator serves the other blocks. Contexts, told apart by return
// address and stack pointer, have an interval each, which grows with the number of their blocks that were guarded: rare ones
// come first. What is guarded is guarded in full: stacks, fill, verification, pages.
// No lock; counters are approximate where threads meet. zg_budget_passes: hot path.

#ifndef ZG_BUDGET_H
#define ZG_BUDGET_H

#include "platform/arch.h"
#include "platform/base.h"
#include "threads/thread.h"

// With a limit: whether the program's own allocator is to serve this block of the caller with this return address.
ZG_INLINE bool zg_budget_passes(uint64_t return_address);
// A guarded call took the time since `since` (zg_arch_ticks).
void zg_budget_spend(uint64_t since);

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
