// Steers the overhead budget in CPU time. Slow path; no lock.

#include "limits/budget.h"

#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/stats.h"

#define FIRST_NS UINT64_C(4000000) // CPU time that is allowed in addition to the share `overhead`

enum { INTERVAL_MOST = 30000, BASE_MOST = 1 << 20 };
#define STEER_NS UINT64_C(2000000)
#define MEASURING_NS 40u // cost of two clock readings and of the call itself, which the measurement does not include
// cost of a bypassed block: two decisions, and cache misses that the program has only under the runtime
#define PASSED_NS 8u
#define SLICE_MOST_NS 50000u // a longer measurement includes time in which the thread was not running

static uint64_t spent_ns, steered_ticks, passed_count, guarded_count, random_state;
static uint64_t base; // average interval, in blocks, of a context that has 16 guarded blocks

// Compares the time spent with the budget so far and lengthens or shortens the intervals a little.
static void steer(uint64_t ticks) {
    uint64_t last = zg_load(&steered_ticks);
    if (zg_clock_ns(ticks - last) < STEER_NS ||
        !__atomic_compare_exchange_n(&steered_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t cpu = zg_clock_process_ns(), spent = zg_load(&spent_ns), now = zg_load(&base);
    uint64_t own = cpu > spent ? cpu - spent : 1, budget = FIRST_NS + own / 1000 * zg_config.overhead;
    if (spent > budget) zg_store(&base, zg_min(now + now / 2 + 4, BASE_MOST));
    else if (spent < budget - budget / 16) zg_store(&base, now - (now + 7) / 8);
    zg_stats_set(zg_counter_overhead_spent_ns, spent);
    zg_stats_set(zg_counter_processor_ns, cpu);
    zg_stats_set(zg_counter_overhead_permille, spent / (own / 1000 + 1));
    zg_stats_set(zg_counter_overhead_budget_permille, zg_config.overhead);
    uint64_t all = zg_load(&passed_count) + zg_load(&guarded_count);
    zg_stats_set(zg_counter_guarded_share_permille, all ? zg_load(&guarded_count) * 1000 / all : 1000);
}

void zg_budget_spend(uint64_t since) {
    uint64_t ticks = zg_arch_ticks();
    __atomic_fetch_add(&spent_ns, zg_min(zg_clock_ns(ticks - since), SLICE_MOST_NS) + MEASURING_NS, __ATOMIC_RELAXED);
    steer(ticks);
}

// Called for a guarded block: draws how many blocks of its context are bypassed before the next guarded one.
void zg_budget_draw(struct zg_thread *thread, uint64_t context) {
    uint64_t often = thread->budget_guarded[context], interval = zg_load(&base) * often / 16;
    if (often < UINT8_MAX) thread->budget_guarded[context]++;
    uint64_t drawn = interval ? zg_min(zg_random(&random_state) % (2 * interval + 1), INTERVAL_MOST) : 0;
    thread->budget_left[context] = (uint16_t)drawn;
    __atomic_fetch_add(&guarded_count, 1, __ATOMIC_RELAXED);
    if (!drawn) return;
    __atomic_fetch_add(&passed_count, drawn, __ATOMIC_RELAXED);
    zg_stats_add(zg_counter_passed_blocks, drawn);
    zg_coverage_declined(zg_coverage_reason_overhead);
    __atomic_fetch_add(&spent_ns, drawn * PASSED_NS, __ATOMIC_RELAXED);
}
