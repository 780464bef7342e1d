// The budgets of processor time. Slow path; no lock.

#define _GNU_SOURCE
#include "limits/budget.h"

#include <time.h>

#include "platform/arch.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

#define FIRST_NS UINT64_C(4000000)   // before any share counts
#define FENCE_FIRST_NS UINT64_C(8000000) // the same for fenced blocks, whose faults to come count as well
#define REFRESH_NS UINT64_C(1000000) // between two looks at the process's clock
#define CALL_MOST_NS UINT64_C(8000)
#define PAGE_MOST_NS UINT64_C(600)
#define CALL_NS UINT64_C(3000)
#define FRESH_PAGE_NS UINT64_C(2500) // its fault, its zeroing, and what it drives out of the caches

static uint64_t first_ticks, first_ns; // the processor's clock and CLOCK_MONOTONIC at one time
static uint64_t forked_ns, inherited_ns; // processor time of the process and those that it was forked from; theirs alone
static uint64_t fence_spent_ns, fence_limit_ns = FENCE_FIRST_NS, refreshed_ticks;

void zg_budget_init(void) {
    first_ticks = zg_arch_ticks();
    first_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
}

// What was spent goes on counting in the child of a fork, whose own clock begins at 0: so does what it was spent of.
static uint64_t process_ns(void) { return inherited_ns + zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

void zg_budget_before_fork(void) { forked_ns = process_ns(); }
void zg_budget_after_fork_in_child(void) { inherited_ns = forked_ns; }

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
    uint32_t share = zg_config.fence_overhead;
    if (zg_config.overhead && zg_config.overhead / 2 < share) share = zg_config.overhead / 2;
    limit = FENCE_FIRST_NS + process_ns() / 1000 * share;
    zg_store(&fence_limit_ns, limit);
    return spent < (first ? limit : limit / 2);
}

void zg_budget_fence_spent(uint64_t since, uint64_t pages) {
    uint64_t ns = zg_budget_ns(zg_arch_ticks() - since);
    __atomic_fetch_add(&fence_spent_ns, zg_min(ns, CALL_MOST_NS + pages * PAGE_MOST_NS), __ATOMIC_RELAXED);
}

void zg_budget_fence_charge(uint64_t pages) {
    __atomic_fetch_add(&fence_spent_ns, CALL_NS + pages * FRESH_PAGE_NS, __ATOMIC_RELAXED);
}

// --- the whole ---------------------------------------------------------------------------------------------------------

enum { INTERVAL_MOST = 30000, BASE_MOST = 1 << 20 };
#define STEER_NS UINT64_C(2000000)
#define MEASURING_NS 40u     // what two readings of the clock and the call cost beyond what they see
#define PASSED_NS 8u         // a block that libc serves: asked for twice, from other cache lines than without us
#define SLICE_MOST_NS 50000u // longer ones include time in which the thread did not run

static uint64_t spent_ns, steered_ticks, passed_count, guarded_count, random_state;
static uint64_t base; // interval of a context after 16 guarded blocks

// What was spent against what may be spent, so far: a little more or less often from now on.
static void steer(uint64_t ticks) {
    uint64_t last = zg_load(&steered_ticks);
    if (zg_budget_ns(ticks - last) < STEER_NS ||
        !__atomic_compare_exchange_n(&steered_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t cpu = process_ns(), spent = zg_load(&spent_ns), now = zg_load(&base);
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

static void spend(uint64_t since) {
    uint64_t ticks = zg_arch_ticks();
    __atomic_fetch_add(&spent_ns, zg_min(zg_budget_ns(ticks - since), SLICE_MOST_NS) + MEASURING_NS, __ATOMIC_RELAXED);
    steer(ticks);
}

// This block is guarded: when the context's next one is.
void zg_budget_draw(struct zg_thread *thread, uint64_t context) {
    uint64_t often = thread->budget_guarded[context], interval = zg_load(&base) * often / 16;
    if (often < UINT8_MAX) thread->budget_guarded[context]++;
    uint64_t drawn = interval ? zg_min(zg_random(&random_state) % (2 * interval + 1), INTERVAL_MOST) : 0;
    thread->budget_left[context] = (uint16_t)drawn;
    __atomic_fetch_add(&guarded_count, 1, __ATOMIC_RELAXED);
    if (!drawn) return;
    __atomic_fetch_add(&passed_count, drawn, __ATOMIC_RELAXED);
    __atomic_fetch_add(&spent_ns, drawn * PASSED_NS, __ATOMIC_RELAXED);
}

void *zg_budget_allocate(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero, const uint64_t *frame) {
    uint64_t ticks = zg_arch_ticks();
    void *block = zg_heap_allocate(size, alignment, kind, zero, frame);
    spend(ticks);
    return block;
}

void zg_budget_free(void *block, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame) {
    uint64_t ticks = zg_arch_ticks();
    zg_heap_free(block, deallocator, size, frame);
    spend(ticks);
}
