// Keeps the budget of processor time for pages: the state of zg_budget_allows, and the readings of the clock.
// Slow path; no lock.

#include "pages/page_time.h"

#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"
#include "threads/single.h"

static struct zg_page_budget budget;
static uint64_t refreshed_ticks; // time of the last reading of the process's clock

static void refresh(uint64_t ticks) {
    uint64_t last = zg_load(&refreshed_ticks);
    if (zg_clock_ns(ticks - last) < ZG_POLICY_BUDGET_REFRESH_NS ||
        !__atomic_compare_exchange_n(&refreshed_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    zg_budget_note_ran(&budget, zg_clock_process_ns(),
                       zg_budget_permille(zg_config.isolated_overhead, zg_config.overhead));
}

bool zg_page_time_allows(enum zg_page_use use, bool ample) {
    if (!zg_page_time_is_limited() || zg_budget_allows(&budget, use, ample)) return true;
    refresh(zg_arch_ticks());
    return zg_budget_allows(&budget, use, ample);
}

bool zg_page_time_is_early(void) {
    if (!zg_budget_is_early(&budget)) return false;
    refresh(zg_arch_ticks());
    return zg_budget_is_early(&budget);
}

void zg_page_time_after_fork_in_child(void) {
    zg_budget_begin_child(&budget, zg_clock_process_ns());
    refreshed_ticks = zg_arch_ticks();
}

void zg_page_time_grant(void) { zg_budget_grant(&budget); }

static void spend(uint64_t ns) { __atomic_fetch_add(&budget.spent_ns, ns, __ATOMIC_RELAXED); }

// Changing pages interrupts the process's other threads. Their time is not measured, so charge the measured time twice.
// Two threads that allocate all the time lost 9 % of their time to a budget of 3 %, and lose 5 % with the doubled
// charge.
static uint64_t measured_since(uint64_t since, uint64_t pages) {
    uint64_t ns = zg_budget_measured_ns(zg_clock_ns(zg_arch_ticks() - since), pages);
    return zg_is_single_threaded() ? ns : 2 * ns;
}

void zg_page_time_spent(uint64_t since, uint64_t pages) {
    if (since) spend(measured_since(since, pages));
}

void zg_page_time_charge(uint64_t pages) {
    if (zg_page_time_is_limited()) spend(zg_budget_fresh_ns(pages));
}

void zg_page_time_charge_window(void) {
    if (zg_page_time_is_limited()) spend(ZG_POLICY_WINDOW_NS);
}

void zg_page_time_retired(uint64_t since, uint64_t pages) {
    uint64_t ns = measured_since(since, pages) + zg_budget_fresh_ns(pages);
    spend(ns);
    __atomic_fetch_add(&budget.retired_ns, ns, __ATOMIC_RELAXED);
}
