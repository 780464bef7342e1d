// The budget of isolated_overhead: system calls and page faults of isolated blocks and of retired pages cost processor
// time. Their costs are added up against an income that comes with the process's processor time, so that blocks of a
// late phase find something left. Unspent income is kept up to a bound, and less urgent uses leave a reserve of it to
// more urgent ones.
//
// All uses together stay below 5 ms + 3 times isolated_overhead of the processor time. In the long run they take
// isolated_overhead: only first blocks of contexts may spend in advance, at most twice the income so far and 64 ms of
// later income, and a little more where the code that allocates is new, too, because a program has only so much code.
// The rules are zg_budget_… in isolation_policy.h.
// Slow path; no lock: sums are approximate where threads meet.

#ifndef ZG_PAGE_TIME_H
#define ZG_PAGE_TIME_H

#include "pages/isolation_policy.h"
#include "platform/arch.h"
#include "settings/config.h"

// zg_budget_allows, after a look at the clock where the answer would be no.
bool zg_page_time_allows(enum zg_page_use use, bool ample);
// zg_budget_is_early, as of the last look at the clock.
bool zg_page_time_is_early(void);
// A child of a fork has little time at once, whatever its parent had left, and more as it runs.
void zg_page_time_after_fork_in_child(void);
// A test begins: first blocks have at least 1 ms from now on, whatever was spent before.
void zg_page_time_grant(void);
ZG_INLINE bool zg_page_time_is_limited(void) { return zg_config.isolated_overhead < ZG_NO_LIMIT_PERCENT; }
// The start of work whose time is to be added, in ticks; 0 where there is no limit, and so nothing to add: reading the
// clock takes 25 ns.
ZG_INLINE uint64_t zg_page_time_start(void) { return zg_page_time_is_limited() ? zg_arch_ticks() : 0; }
// Adds the time since `since` that isolating a block of `pages` pages took. A thread that was preempted meanwhile did
// not spend all of it: system calls for that number of pages bound the sum.
void zg_page_time_spent(uint64_t since, uint64_t pages);
// Adds the cost of fresh pages, which is paid later, by their faults.
void zg_page_time_charge(uint64_t pages);
// Adds the cost of a block in a window that is paid later, by misses of caches.
void zg_page_time_charge_window(void);
// Adds both for pages that were retired: as many fresh ones will be touched.
void zg_page_time_retired(uint64_t since, uint64_t pages);

#endif
