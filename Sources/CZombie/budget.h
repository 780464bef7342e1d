// What guarding may cost: the processor time that it takes is measured, and compared with the process's own.
//
// Fenced blocks cost system calls, so their share is steered alone (fence_overhead): the time of each is added up, and what
// goes beyond 10 ms and the allowed share of the process's processor time is declined.
// zg_budget_fence_allows: slow path. No lock; counters are approximate where threads meet.

#ifndef ZG_BUDGET_H
#define ZG_BUDGET_H

#include "base.h"

void zg_budget_init(void);
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

#endif
