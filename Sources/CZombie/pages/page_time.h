// The budget of fence_overhead: fenced and retired pages cost system calls and faults. What each costs is added up against an
// income that comes with the process's processor time, so that there is something left for whoever comes late: what is not
// spent is kept, up to a bound, and of that the less urgent uses leave a reserve to the more urgent ones.
//
// All together stay below 5 ms + 3 times fence_overhead of the processor time. In the long run it is fence_overhead: only first
// blocks of stacks may spend in advance, at most twice the income so far and 64 ms of what comes later, and a little more
// where the code that allocates is new, too, of which there is only so much in a program.
// Slow path; no lock: counts are approximate where threads meet.

#ifndef ZG_PAGE_TIME_H
#define ZG_PAGE_TIME_H

#include "platform/arch.h"
#include "platform/base.h"
#include "settings/config.h"

// What pages are for, the most urgent first.
enum zg_page_use {
    zg_page_new_code, // the first block of a stack whose innermost calls made none before
    zg_page_first,    // the first block of a stack
    zg_page_next,     // another one of its first blocks
    zg_page_later,    // one of all the others
    zg_page_retire,   // pages of dead blocks
};

// Whether there is time for that. `ample`: and for more urgent uses to come twice of what they are left otherwise; of first
// blocks, half of the income, and nothing in advance.
bool zg_page_time_allows(enum zg_page_use use, bool ample);
// In the first milliseconds that the process runs, as of the last look at its clock.
bool zg_page_time_is_early(void);
// A child has little at once, whatever its parent had left, and more as it runs.
void zg_page_time_after_fork_in_child(void);
// At least 1 ms for first blocks from now on, whatever was spent before: for tests, whose shares are their own.
void zg_page_time_grant(void);
ZG_INLINE bool zg_page_time_is_limited(void) { return zg_config.fence_overhead < ZG_NO_LIMIT_PERCENT; }
// The start of work that is to be added up, in ticks; 0 where nothing is, because there is no limit: the clock costs 25 ns.
ZG_INLINE uint64_t zg_page_time_start(void) { return zg_page_time_is_limited() ? zg_arch_ticks() : 0; }
// The time that fencing took since that. A thread that was put aside meanwhile did not spend it: it counts
// only as far as system calls for so many pages take.
void zg_page_time_spent(uint64_t since, uint64_t pages);
// The same for work whose price is paid later, by the faults of fresh pages.
void zg_page_time_charge(uint64_t pages);
void zg_page_time_charge_window(void);
// Both, for pages that were retired: as many fresh ones will be touched.
void zg_page_time_retired(uint64_t since, uint64_t pages);

#endif
