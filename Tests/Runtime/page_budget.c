// The processor time budget for pages is spread over a process's life, capped, and divided by urgency.
// link: runtime

#include "pages/page_time.h"

#include "check.h"
#include "platform/arch.h"
#include "platform/clock.h"
#include "settings/config.h"

#define MS UINT64_C(1000000)
#define BLOCK_NS (1000 + 2500)             // cost that zg_page_time_charge(1) charges
#define RETIRED_NS (BLOCK_NS + 8000 + 600) // charge for a retired page: a fresh page, and the cap of the measured time

// The test's clock replaces the runtime's. It returns the processor time that the test sets, and converts every short
// interval to ten milliseconds.
static uint64_t processor_ns;
void zg_clock_init(void) {}
void zg_clock_before_fork(void) {}
void zg_clock_after_fork_in_child(void) {}
uint64_t zg_clock_process_ns(void) { return processor_ns; }
uint64_t zg_clock_ns(uint64_t ticks) { return ticks < (UINT64_C(1) << 40) ? 10 * MS : ticks; }
uint64_t zg_clock_ticks(uint64_t ns) { return ns; }

static uint64_t spent_ns;

// Spends all that the budget allows. Returns the amount.
static uint64_t spend(enum zg_page_use use, bool ample) {
    uint64_t before = spent_ns;
    while (zg_page_time_allows(use, ample) && spent_ns - before < 10000 * MS) {
        zg_page_time_charge(1);
        spent_ns += BLOCK_NS;
    }
    return spent_ns - before;
}

static uint64_t share_of(uint64_t ns) { return ns / 1000 * zg_config.isolated_overhead; }

static void check_start(void) {
    uint64_t later = spend(zg_page_later, false), next = spend(zg_page_next, false),
             first = spend(zg_page_first, false);
    uint64_t new_code = spend(zg_page_new_code, false);
    CHECK(later >= MS / 2 && next > 0 && first >= MS && new_code >= MS / 2,
          "at the start each leaves some to the more urgent");
    CHECK(spent_ns <= 6 * MS + 4 * BLOCK_NS, "before any processor time, a part of the start");
    CHECK(!zg_page_time_allows(zg_page_new_code, false), "nothing is left for anybody");
    CHECK(zg_page_time_is_early(), "no time has passed");
    processor_ns += 16 * MS;
    CHECK(spend(zg_page_new_code, false) <= 16 * MS / 6, "new code has a sixth of the first milliseconds");
    processor_ns += 64 * MS;
    spend(zg_page_first, false);
    CHECK(spent_ns >= 7 * MS + 2 * share_of(processor_ns), "after 80 ms all of the start has come");
    CHECK(spent_ns <= 7 * MS + 2 * share_of(processor_ns) + BLOCK_NS, "and no more");
    CHECK(!zg_page_time_is_early(), "the process has run for a while");
}

// For ten seconds, first blocks of new stacks request pages all the time.
static void check_new_stacks(void) {
    uint64_t begin = processor_ns, in_last_second = 0;
    for (int step = 1; step <= 1000; step++) {
        processor_ns += 10 * MS;
        uint64_t spent = spend(zg_page_first, false);
        if (step > 900) in_last_second += spent;
        CHECK(spent_ns <= 9 * MS + 2 * share_of(processor_ns) + BLOCK_NS, "first blocks stay below twice the share");
    }
    CHECK(spent_ns <= 9 * MS + 64 * MS + share_of(processor_ns - begin) + BLOCK_NS,
          "and spend 64 ms in advance at most");
    CHECK(in_last_second >= share_of(1000 * MS) * 9 / 10, "the last second has its share, too");
    CHECK(!zg_page_time_allows(zg_page_next, false), "while they use it up, others get nothing");
    CHECK(spend(zg_page_new_code, false) >= 10 * MS, "new code has something left all the same");
    CHECK(spent_ns <= 9 * MS + 3 * share_of(processor_ns) + BLOCK_NS, "all together stay below the ceiling");
}

// All kinds of blocks request pages: later blocks get the rest, and first blocks still have their reserve.
static void check_left_over(void) {
    processor_ns += 40000 * MS; // pays back what was spent in advance
    spend(zg_page_later, false);
    uint64_t before = spent_ns;
    for (int step = 0; step < 100; step++) {
        processor_ns += 100 * MS;
        spend(zg_page_later, false);
    }
    uint64_t spent = spent_ns - before, share = share_of(10000 * MS);
    CHECK(spent >= share * 9 / 10 && spent <= share * 11 / 10, "later blocks use what nobody else wants, and no more");
    CHECK(zg_page_time_allows(zg_page_next, false), "they leave something for the next ones");
    CHECK(spend(zg_page_first, true) >= 8 * MS, "and for the first ones, before these spend in advance");
    CHECK(spend(zg_page_first, false) >= 60 * MS, "which they can");
}

// Spends nothing for an hour.
static void check_burst(void) {
    processor_ns += 3600000 * MS;
    uint64_t first = spend(zg_page_first, false);
    CHECK(first >= 64 * MS && first <= 2 * 64 * MS + BLOCK_NS, "what is kept is bounded");
}

static void check_retiring(void) {
    processor_ns += 10000 * MS;
    uint64_t retired = 0;
    for (int step = 0; step < 100; step++) {
        processor_ns += 1000 * MS;
        for (; zg_page_time_allows(zg_page_retire, false); retired++) zg_page_time_retired(zg_arch_ticks(), 1);
    }
    uint64_t spent = retired * RETIRED_NS;
    CHECK(spent >= MS, "dead pages are retired");
    CHECK(spent <= share_of(processor_ns) / 4 + 2 * MS, "for a quarter of the share at most");
    processor_ns += 1000 * MS;
    CHECK(zg_page_time_allows(zg_page_later, false), "blocks in use have the rest");
}

// A test is granted time for pages after others have used up the budget. The next test does not get the rest.
static void check_grant(void) {
    spend(zg_page_new_code, false);
    CHECK(!zg_page_time_allows(zg_page_first, false), "nothing is left");
    zg_page_time_grant();
    uint64_t first = spend(zg_page_first, false);
    CHECK(first >= MS && first <= MS + BLOCK_NS, "a test has a millisecond");
    zg_page_time_grant();
    zg_page_time_grant();
    CHECK(spend(zg_page_first, false) <= MS + BLOCK_NS, "what a test does not use is not the next one's");
}

// A child's budget does not depend on what its parent has left.
static void check_child(void) {
    processor_ns += 100000 * MS;
    CHECK(zg_page_time_allows(zg_page_first, true), "the parent has something left");
    zg_page_time_after_fork_in_child();
    CHECK(spend(zg_page_new_code, false) <= 3 * MS / 10 + BLOCK_NS, "a child has 300 microseconds");
    CHECK(!zg_page_time_allows(zg_page_first, false), "of all kinds");
    processor_ns += 8 * MS;
    uint64_t spent = spend(zg_page_first, false);
    CHECK(spent >= MS - BLOCK_NS && spent <= MS + BLOCK_NS, "and an eighth of its time");
    zg_page_time_grant();
    CHECK(zg_page_time_allows(zg_page_first, false), "a test in a child has its own");
}

static void check_no_limit(void) {
    zg_config.isolated_overhead = ZG_NO_LIMIT_PERCENT;
    CHECK(zg_page_time_allows(zg_page_retire, true) && zg_page_time_allows(zg_page_later, true), "100 % is no limit");
}

int main(void) {
    zg_config.isolated_overhead = 30;
    check_start();
    check_new_stacks();
    check_left_over();
    check_burst();
    check_retiring();
    check_grant();
    check_child();
    check_no_limit();
    return check_end();
}
