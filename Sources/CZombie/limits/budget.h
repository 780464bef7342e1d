// The overhead budget: the runtime measures each guarded allocation and free, and guards as many blocks as the allowed
// share of the process's own CPU time (`overhead`) pays for. The program's own allocator serves the others. Each
// context (return address and stack pointer) has a random interval between guarded blocks, which grows with the number
// of guarded blocks, so that rare contexts are preferred. A guarded block gets every check: stacks, fill, verification,
// guard pages.
// No lock; counters are approximate with several threads. zg_budget_bypasses: hot path.

#ifndef ZG_BUDGET_H
#define ZG_BUDGET_H

#include "platform/arch.h"
#include "platform/base.h"
#include "threads/thread.h"

// With a budget: returns whether the program's own allocator is to serve this block of the caller at `return_address`.
ZG_INLINE bool zg_budget_bypasses(uint64_t return_address);
// Charges the time since `since` (zg_arch_ticks) for one guarded call.
void zg_budget_spend(uint64_t since);

// -- inline part --

void zg_budget_draw(struct zg_thread *thread, uint64_t context);

ZG_INLINE bool zg_budget_bypasses(uint64_t return_address) {
    uint64_t key = (return_address * UINT64_C(0x9e3779b97f4a7c15)) ^ zg_arch_stack_end();
    uint64_t context = key * UINT64_C(0xd6e8feb86659fd93) >> (64 - ZG_BUDGET_CONTEXT_BITS);
    // A thread's first block is guarded. Threads that have ended share one state, and so share its counts, which are
    // approximate anyway.
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
