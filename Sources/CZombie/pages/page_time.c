// The budget of processor time for pages. Slow path; no lock.

#include "pages/page_time.h"

#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"

#define FIRST_NS UINT64_C(8000000)   // before any share counts; the faults to come are in it
#define REFRESH_NS UINT64_C(1000000) // between two looks at the process's clock
#define CALL_MOST_NS UINT64_C(8000)
#define PAGE_MOST_NS UINT64_C(600)
#define CALL_NS UINT64_C(3000)
#define FRESH_PAGE_NS UINT64_C(2500) // its fault, its zeroing, and what it drives out of the caches

static uint64_t spent_ns, limit_ns = FIRST_NS, refreshed_ticks;

bool zg_page_time_allows(bool first) {
    if (zg_config.fence_overhead >= ZG_NO_LIMIT_PERCENT) return true;
    uint64_t spent = zg_load(&spent_ns), limit = zg_load(&limit_ns);
    if (spent < (first ? limit : limit / 2)) return true;
    uint64_t ticks = zg_arch_ticks();
    if (zg_clock_ns(ticks - zg_load(&refreshed_ticks)) < REFRESH_NS) return false;
    zg_store(&refreshed_ticks, ticks);
    uint32_t share = zg_config.fence_overhead;
    if (zg_config.overhead && zg_config.overhead / 2 < share) share = zg_config.overhead / 2;
    limit = FIRST_NS + zg_clock_process_ns() / 1000 * share;
    zg_store(&limit_ns, limit);
    return spent < (first ? limit : limit / 2);
}

void zg_page_time_spent(uint64_t since, uint64_t pages) {
    uint64_t ns = zg_clock_ns(zg_arch_ticks() - since);
    __atomic_fetch_add(&spent_ns, zg_min(ns, CALL_MOST_NS + pages * PAGE_MOST_NS), __ATOMIC_RELAXED);
}

void zg_page_time_charge(uint64_t pages) {
    __atomic_fetch_add(&spent_ns, CALL_NS + pages * FRESH_PAGE_NS, __ATOMIC_RELAXED);
}
