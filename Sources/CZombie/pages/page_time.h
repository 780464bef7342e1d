// The budget of isolated_overhead. System calls and page faults for isolated blocks and retired pages cost processor
// time. These costs are charged against an income that grows with the process's processor time, so that some budget
// remains for blocks of a later phase. Unspent income is kept up to a bound, and less urgent uses leave a reserve to
// more urgent ones.
//
// All uses together stay below 5 ms + 3 times isolated_overhead of the processor time, and take isolated_overhead in
// the long run. Only first blocks of contexts may spend in advance: at most twice the income so far, and at most 64 ms
// of later income. First blocks of new code may spend a little more, because a program has only a limited amount of
// code. isolation_policy.h has the rules (zg_budget_…).
// Slow path; no lock. Sums are approximate while other threads add to them.

#ifndef ZG_PAGE_TIME_H
#define ZG_PAGE_TIME_H

#include "pages/isolation_policy.h"
#include "platform/arch.h"
#include "settings/config.h"

// Returns the result of zg_budget_allows. Rereads the clock before it returns false.
bool zg_page_time_allows(enum zg_page_use use, bool ample);
// Returns the result of zg_budget_is_early. Rereads the clock before it returns true.
bool zg_page_time_is_early(void);
// Starts the budget of a fork's child: little time at the start, whatever its parent had left, and more as it runs.
void zg_page_time_after_fork_in_child(void);
// Call when a test of a test bundle starts. Raises the budget so that first blocks of contexts may spend at least 1 ms,
// whatever was spent before.
void zg_page_time_grant(void);
ZG_INLINE bool zg_page_time_is_limited(void) { return zg_config.isolated_overhead < ZG_NO_LIMIT_PERCENT; }
// Returns the start of work that will be charged, in ticks. 0 if there is no limit, so that the clock, which takes 25
// ns to read, is not read.
ZG_INLINE uint64_t zg_page_time_start(void) { return zg_page_time_is_limited() ? zg_arch_ticks() : 0; }
// Charges the time since `since` for isolating a block of `pages` pages. The charge is bounded by the duration of
// system calls for that many pages, because a preempted thread did not spend all of the time. No effect if `since` is
// 0.
void zg_page_time_spent(uint64_t since, uint64_t pages);
// Charges the cost of fresh pages, which arises later in page faults.
void zg_page_time_charge(uint64_t pages);
// Charges the later cost of a block in a window: cache misses.
void zg_page_time_charge_window(void);
// Charges both the time since `since` and the cost of fresh pages for retired pages: the program will touch as many
// fresh ones.
void zg_page_time_retired(uint64_t since, uint64_t pages);

#endif
