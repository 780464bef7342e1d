// The budget of fence_overhead: fenced and retired pages cost system calls and faults. The time of each is added up, and what
// goes beyond 8 ms and the allowed share of the process's processor time is declined.
// Slow path; no lock: counts are approximate where threads meet.

#ifndef ZG_PAGE_TIME_H
#define ZG_PAGE_TIME_H

#include "platform/base.h"

// Whether another block may be fenced. Contexts of which none was yet come `first`: the others leave them half of it.
bool zg_page_time_allows(bool first);
// The time that fencing took since `since` (zg_arch_ticks). A thread that was put aside meanwhile did not spend it: it counts
// only as far as system calls for so many pages take.
void zg_page_time_spent(uint64_t since, uint64_t pages);
// The same for work whose price is paid later, by the faults of fresh pages.
void zg_page_time_charge(uint64_t pages);

#endif
