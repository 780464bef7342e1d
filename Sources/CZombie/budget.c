// The budgets of processor time. Slow path; no lock.

#define _GNU_SOURCE
#include "budget.h"

#include <time.h>

#include "arch.h"
#include "config.h"
#include "os.h"
#include "stats.h"

#define FIRST_NS UINT64_C(10000000)  // for fencing, before any share counts
#define REFRESH_NS UINT64_C(1000000) // between two looks at the process's clock
#define CALL_MOST_NS UINT64_C(20000)
#define PAGE_MOST_NS UINT64_C(1000)
#define CALL_NS UINT64_C(3000)

static uint64_t first_ticks, first_ns; // the processor's clock and CLOCK_MONOTONIC at one time
static uint64_t fence_spent_ns, fence_limit_ns = FIRST_NS, refreshed_ticks;

void zg_budget_init(void) {
    first_ticks = zg_arch_ticks();
    first_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
}

// Ticks per 1024 ns, as measured since the start; before that is long enough, a guess.
static uint64_t rate(void) {
    static uint64_t known, known_at;
    uint64_t ticks = zg_arch_ticks() - first_ticks, at = zg_load(&known_at);
    if (zg_load(&known) && ticks < 2 * at) return zg_load(&known);
    uint64_t ns = zg_os_clock_ns(CLOCK_MONOTONIC) - first_ns;
    if (ns < 100000) return 2560;
    uint64_t measured = (uint64_t)((double)ticks * 1024 / (double)ns);
    zg_store(&known, measured ? measured : 1);
    zg_store(&known_at, ticks);
    return measured ? measured : 1;
}

uint64_t zg_budget_ns(uint64_t ticks) { return (uint64_t)((double)ticks * 1024 / (double)rate()); }

uint64_t zg_budget_ticks(uint64_t ns) { return (uint64_t)((double)ns * (double)rate() / 1024); }

bool zg_budget_fence_allows(bool first) {
    if (zg_config.fence_overhead >= ZG_NO_LIMIT_PERCENT) return true;
    uint64_t spent = zg_load(&fence_spent_ns), limit = zg_load(&fence_limit_ns);
    if (spent < (first ? limit : limit / 2)) return true;
    uint64_t ticks = zg_arch_ticks();
    if (zg_budget_ns(ticks - zg_load(&refreshed_ticks)) < REFRESH_NS) return false;
    zg_store(&refreshed_ticks, ticks);
    limit = FIRST_NS + zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000 * zg_config.fence_overhead;
    zg_store(&fence_limit_ns, limit);
    return spent < (first ? limit : limit / 2);
}

void zg_budget_fence_spent(uint64_t since, uint64_t pages) {
    uint64_t ns = zg_budget_ns(zg_arch_ticks() - since);
    __atomic_fetch_add(&fence_spent_ns, zg_min(ns, CALL_MOST_NS + pages * PAGE_MOST_NS), __ATOMIC_RELAXED);
}

void zg_budget_fence_charge(uint64_t pages) {
    __atomic_fetch_add(&fence_spent_ns, CALL_NS + pages * PAGE_MOST_NS, __ATOMIC_RELAXED);
}
