// The budget of processor time for pages. Slow path; no lock.

#include "pages/page_time.h"

#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"

// Before any share counts; and what first blocks and new code may have had by then. It comes with the first milliseconds that the
// process runs: most processes end soon, and would spend it on what is over in a moment.
#define START_NS UINT64_C(3000000)
#define FIRST_START_NS UINT64_C(4000000)
#define NEW_CODE_START_NS UINT64_C(5000000)
// At once, so that a program of a few hundred blocks has all that it can have; the rest as a part of the time so far.
#define START_AT_ONCE_NS UINT64_C(1500000)
#define FIRST_AT_ONCE_NS UINT64_C(3000000)
#define NEW_CODE_AT_ONCE_NS UINT64_C(4000000)
enum { START_PART = 16 };
#define EARLY_NS UINT64_C(20000000)
// Of a process made by fork, at once and by its own time.
#define CHILD_AT_ONCE_NS UINT64_C(300000)
enum { CHILD_PART = 8 };

#define ADVANCE_NS UINT64_C(64000000) // of later income
#define KEPT_NS UINT64_C(64000000)    // of income that nobody spent
#define RESERVE_NS UINT64_C(16000000) // left for more urgent uses
#define GRANT_NS UINT64_C(1000000)    // for a test
#define REFRESH_NS UINT64_C(1000000)  // between two looks at the process's clock
#define CALL_MOST_NS UINT64_C(8000)
#define PAGE_MOST_NS UINT64_C(600)
#define CALL_NS UINT64_C(1000)
#define WINDOW_NS                                                                                                      \
    UINT64_C(100) // of a block, besides what is measured: entries of the caches for page tables, and of those
#define FRESH_PAGE_NS UINT64_C(2500) // its fault, its zeroing, and what it drives out of the caches
// The most that new code and first blocks may have had of the processor time, as multiples of fence_overhead, and the part of
// one fence_overhead for retiring.
enum { NEW_CODE_SHARE = 3, FIRST_SHARE = 2, RETIRE_PART = 4 };

// As of the last look at the clock: the share of the processor time so far, and of that what was kept too long.
static uint64_t spent_ns, retired_ns, earned_ns, forgone_ns, refreshed_ticks;
static uint64_t ran_ns;     // the process's time, as of then
static uint64_t granted_ns; // besides
// As of the fork that made this process: what its parent left would be spent by each of its children, on the same code.
static struct { uint64_t spent_ns, ran_ns, at_once_ns; } inherited;
static bool is_child;

static uint64_t start_of(uint64_t at_once, uint64_t whole) {
    return zg_min(whole, at_once + zg_load(&ran_ns) / START_PART);
}
static uint64_t start_ns(void) { return start_of(START_AT_ONCE_NS, START_NS); }

// What may have been spent by now so that this use may spend more.
static uint64_t limit_of(enum zg_page_use use, bool ample) {
    uint64_t granted = zg_load(&granted_ns), earned = zg_load(&earned_ns);
    uint64_t income = start_ns() + granted + earned - zg_min(zg_load(&forgone_ns), earned);
    uint64_t reserve = zg_min(income / 8, RESERVE_NS);
    if (use <= zg_page_first && ample) return income - zg_min(income / 2, RESERVE_NS);
    if (use == zg_page_new_code)
        return start_of(NEW_CODE_AT_ONCE_NS, NEW_CODE_START_NS) + granted + NEW_CODE_SHARE * earned;
    if (use == zg_page_first)
        return zg_min(start_of(FIRST_AT_ONCE_NS, FIRST_START_NS) + granted + FIRST_SHARE * earned, income + ADVANCE_NS);
    return income - reserve * (use == zg_page_next ? 1 : 2) * (ample ? 2 : 1);
}

// What a child may have spent by now of its own.
static uint64_t limit_of_child(void) {
    return inherited.spent_ns + zg_load(&inherited.at_once_ns) + (zg_load(&ran_ns) - inherited.ran_ns) / CHILD_PART;
}

static bool is_allowed(enum zg_page_use use, bool ample) {
    if (use == zg_page_retire && zg_load(&retired_ns) >= (start_ns() + zg_load(&earned_ns)) / RETIRE_PART) return false;
    uint64_t spent = zg_load(&spent_ns);
    return spent < limit_of(use, ample) && (!is_child || spent < limit_of_child());
}

static void look_at_clock(uint64_t ticks) {
    uint64_t last = zg_load(&refreshed_ticks);
    if (zg_clock_ns(ticks - last) < REFRESH_NS ||
        !__atomic_compare_exchange_n(&refreshed_ticks, &last, ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t share = zg_config.fence_overhead;
    if (zg_config.overhead && zg_config.overhead / 2 < share) share = zg_config.overhead / 2;
    uint64_t ran = zg_clock_process_ns(), earned = ran / 1000 * share, forgone = zg_load(&forgone_ns);
    uint64_t kept = zg_load(&spent_ns) + KEPT_NS + forgone, income = start_ns() + zg_load(&granted_ns) + earned;
    if (income > kept) zg_store(&forgone_ns, forgone + income - kept);
    zg_store(&earned_ns, earned);
    zg_store(&ran_ns, ran);
}

bool zg_page_time_allows(enum zg_page_use use, bool ample) {
    if (!zg_page_time_is_limited() || is_allowed(use, ample)) return true;
    look_at_clock(zg_arch_ticks());
    return is_allowed(use, ample);
}

bool zg_page_time_is_early(void) { return zg_load(&ran_ns) < EARLY_NS; }

void zg_page_time_after_fork_in_child(void) {
    is_child = true;
    inherited.spent_ns = spent_ns;
    inherited.at_once_ns = CHILD_AT_ONCE_NS;
    inherited.ran_ns = ran_ns = zg_clock_process_ns();
    refreshed_ticks = zg_arch_ticks();
}

void zg_page_time_grant(void) {
    uint64_t limit = limit_of(zg_page_first, false), needed = zg_load(&spent_ns) + GRANT_NS;
    if (limit < needed) __atomic_fetch_add(&granted_ns, needed - limit, __ATOMIC_RELAXED);
    limit = is_child ? limit_of_child() : needed;
    if (limit < needed) __atomic_fetch_add(&inherited.at_once_ns, needed - limit, __ATOMIC_RELAXED);
}

static uint64_t measured(uint64_t since, uint64_t pages) {
    return zg_min(zg_clock_ns(zg_arch_ticks() - since), CALL_MOST_NS + pages * PAGE_MOST_NS);
}

void zg_page_time_spent(uint64_t since, uint64_t pages) {
    if (!since) return;
    __atomic_fetch_add(&spent_ns, measured(since, pages), __ATOMIC_RELAXED);
}

void zg_page_time_charge(uint64_t pages) {
    if (!zg_page_time_is_limited()) return;
    __atomic_fetch_add(&spent_ns, CALL_NS + pages * FRESH_PAGE_NS, __ATOMIC_RELAXED);
}

void zg_page_time_charge_window(void) {
    if (zg_page_time_is_limited()) __atomic_fetch_add(&spent_ns, WINDOW_NS, __ATOMIC_RELAXED);
}

void zg_page_time_retired(uint64_t since, uint64_t pages) {
    uint64_t ns = measured(since, pages) + CALL_NS + pages * FRESH_PAGE_NS;
    __atomic_fetch_add(&spent_ns, ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&retired_ns, ns, __ATOMIC_RELAXED);
}
