// Tests the isolation policy: every decision on both sides of every bound, and the table of constants.
// link: runtime

#include "pages/isolation_policy.h"

#include <string.h>

#include "blocks/size_class.h"
#include "check.h"

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct zg_isolation_conditions with_live(uint64_t bytes) {
    return (struct zg_isolation_conditions){.live_bytes = bytes};
}
static struct zg_isolation_conditions where_all(uint64_t bytes) {
    return (struct zg_isolation_conditions){.live_bytes = bytes, .isolates_all = true};
}
static struct zg_isolation_conditions where_few(uint64_t bytes) {
    return (struct zg_isolation_conditions){.live_bytes = bytes, .has_few_in_windows = true};
}
static struct zg_isolation_conditions where_narrow(uint64_t bytes) {
    return (struct zg_isolation_conditions){.live_bytes = bytes, .is_narrow = true};
}

// --- the table -------------------------------------------------------------------------------------------------------

struct constant {
    const char *name;
    int64_t value;
    const char *unit, *reason, *source;
};
#define ROW(name, value, unit, reason, source) {#name, value, unit, reason, source},
static const struct constant constants[] = {ZG_POLICY_CONSTANTS(ROW)};

static void check_table(void) {
    size_t count = sizeof constants / sizeof *constants, guessed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct constant *constant = &constants[i];
        bool is_guess = strcmp(constant->source, "chosen, not measured") == 0;
        bool is_known =
            strncmp(constant->source, "chosen: ", 8) == 0 || strncmp(constant->source, "measured: ", 10) == 0;
        CHECK(is_guess || is_known, constant->name);
        CHECK(constant->value > 0 && constant->value <= INT32_MAX, constant->name);
        CHECK(*constant->unit && constant->reason[strlen(constant->reason) - 1] == '.', constant->name);
        for (size_t j = 0; j < i; j++) CHECK(strcmp(constants[j].name, constant->name) != 0, constant->name);
        guessed += is_guess;
    }
    printf("%zu constants, %zu of them with a source\n", count, count - guessed);
}

// --- the choice ------------------------------------------------------------------------------------------------------

static struct zg_isolation_bid bid_of(struct zg_isolation_request request) { return zg_policy_bid(&request); }
#define BID_OF_SIZE(bytes, ...) bid_of((struct zg_isolation_request){.size = (bytes), .per_context = 8, __VA_ARGS__})
#define BID(...) BID_OF_SIZE(100, __VA_ARGS__)

static void check_first_blocks(void) {
    CHECK_EQUAL(zg_policy_first_blocks(8, false), 8, "as many as the option says");
    CHECK_EQUAL(zg_policy_first_blocks(8, true), 16, "twice as many where they can lie in windows");
    struct zg_isolation_request off = {.size = 100};
    CHECK(!zg_policy_bid(&off).is_wanted, "isolated_per_context=0: none");
    off.isolated = 1;
    off.is_later = true;
    CHECK(!zg_policy_bid(&off).is_wanted, "not even a later one");
    struct zg_isolation_bid bid = BID(.isolated = 0);
    CHECK(bid.is_wanted && bid.use == zg_page_first && bid.odds == 1, "the first block of a context");
    bid = BID_OF_SIZE(50 * ZG_PAGE_BYTES, .isolated = 0);
    CHECK(bid.is_wanted && bid.odds == 1, "the first one whatever its size");
    bid = BID(.isolated = 1);
    CHECK(bid.is_wanted && bid.use == zg_page_next && bid.odds == 1, "the second one");
    bid = BID(.isolated = 7);
    CHECK(bid.is_wanted && bid.use == zg_page_next && bid.odds == 1, "the eighth one");
    bid = BID_OF_SIZE(ZG_PAGE_BYTES - 1, .isolated = 7);
    CHECK_EQUAL(bid.odds, 1, "less than a page");
    bid = BID_OF_SIZE(ZG_PAGE_BYTES, .isolated = 7);
    CHECK_EQUAL(bid.odds, 2, "one page: one in two");
    bid = BID_OF_SIZE(255 * ZG_PAGE_BYTES, .isolated = 7);
    CHECK_EQUAL(bid.odds, 256, "255 pages: one in 256");
    bid = BID_OF_SIZE(100000 * ZG_PAGE_BYTES, .isolated = 7);
    CHECK_EQUAL(bid.odds, 256, "and no rarer");
}

static void check_later_blocks(void) {
    CHECK(!BID(.isolated = 8).is_wanted, "the ninth block is not wanted for its context");
    struct zg_isolation_bid bid = BID(.isolated = 8, .is_later = true);
    CHECK(bid.is_wanted && bid.use == zg_page_later && bid.odds == 2, "now and then: one in two");
    bid = BID(.isolated = 9, .is_later = true);
    CHECK_EQUAL(bid.odds, 3, "and ever more rarely");
    bid = BID_OF_SIZE(2 * ZG_PAGE_BYTES, .isolated = 65535, .is_later = true);
    CHECK_EQUAL(bid.odds, UINT64_C(3) * (65535 - 8 + 2), "by its pages, too");
    bid = BID(.isolated = 15, .is_window_eligible = true);
    CHECK(bid.is_wanted && bid.use == zg_page_next && bid.odds == 1, "in windows the sixteenth is a first one");
    CHECK(!BID(.isolated = 16, .is_window_eligible = true).is_wanted, "the 17th is not");
    bid = BID(.isolated = 16, .is_window_eligible = true, .is_later = true);
    CHECK(bid.is_wanted && bid.use == zg_page_next && bid.odds == 1, "later ones are as urgent, at first all of them");
    bid = BID(.isolated = 16 + 255, .is_window_eligible = true, .is_later = true);
    CHECK_EQUAL(bid.odds, 1, "255 of them");
    bid = BID(.isolated = 16 + 256, .is_window_eligible = true, .is_later = true);
    CHECK_EQUAL(bid.odds, 2, "then half");
    CHECK(!zg_policy_is_too_large(64 * MIB) && zg_policy_is_too_large(64 * MIB + 1), "no block of more than 64 MiB");
}

static void check_all_blocks(void) {
    for (uint32_t isolated = 0; isolated < 70; isolated++) {
        bool is_turn = isolated < 16 || isolated == 16 || isolated == 32 || isolated == 48 || isolated == 64;
        struct zg_isolation_request request = {.isolates_all = true, .isolated = isolated, .is_window_eligible = true};
        CHECK(zg_policy_bid(&request).is_wanted && zg_policy_bid(&request).odds == 1, "every block is wanted");
        CHECK_EQUAL(zg_policy_preference_where_all(&request, false, false),
                    is_turn ? zg_preference_by_rest : zg_preference_window,
                    "the first ones are private, if they can be");
        CHECK_EQUAL(zg_policy_preference_where_all(&request, false, true), zg_preference_by_rest, "early, all are");
        CHECK_EQUAL(zg_policy_preference_where_all(&request, true, isolated & 1), zg_preference_window,
                    "unless windows are forced");
        request.is_limited = true;
        CHECK(zg_policy_bid(&request).is_wanted, "limits of the program's leave windows");
        request.is_window_eligible = false;
        CHECK_EQUAL(zg_policy_preference_where_all(&request, true, false), zg_preference_private,
                    "it cannot lie in one");
        CHECK_EQUAL(zg_policy_bid(&request).is_wanted, is_turn, "without windows a limited program has fewer");
        request.is_limited = false;
        CHECK(zg_policy_bid(&request).is_wanted, "others have all");
    }
}

static void check_preference(void) {
    for (int i = 0; i < 4; i++) {
        bool is_forced = i & 1, is_eligible = i & 2;
        struct zg_isolation_request request = {.is_window_eligible = is_eligible};
        enum zg_preference expected = !is_eligible ? zg_preference_private
                                      : is_forced  ? zg_preference_window
                                                   : zg_preference_by_rest;
        CHECK_EQUAL(zg_policy_preference_where_some(&request, is_forced), expected, "pages or a window");
    }
}

// --- processor time --------------------------------------------------------------------------------------------------

// Returns the lowest spent time at which the budget does not allow this use.
static uint64_t limit_of(struct zg_page_budget budget, enum zg_page_use use, bool ample) {
    uint64_t low = 0, high = 1000000 * MS;
    while (low < high) {
        budget.spent_ns = (low + high) / 2;
        if (zg_budget_allows(&budget, use, ample)) low = budget.spent_ns + 1;
        else high = budget.spent_ns;
    }
    return low;
}

static void check_budget_limits(void) {
    struct zg_page_budget budget = {0};
    uint64_t income = 3 * MS, reserve = income / 8;
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), 6 * MS, "at once: new code");
    CHECK_EQUAL(limit_of(budget, zg_page_first, false), 5 * MS, "first blocks");
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, true), income - income / 2, "ample: half of the income");
    CHECK_EQUAL(limit_of(budget, zg_page_first, true), income - income / 2, "first blocks, ample");
    CHECK_EQUAL(limit_of(budget, zg_page_next, false), income - reserve, "next blocks leave a reserve");
    CHECK_EQUAL(limit_of(budget, zg_page_next, true), income - 2 * reserve, "next blocks, ample");
    CHECK_EQUAL(limit_of(budget, zg_page_later, false), income - 2 * reserve, "later blocks leave twice as much");
    CHECK_EQUAL(limit_of(budget, zg_page_later, true), income - 4 * reserve, "later blocks, ample");
    CHECK_EQUAL(limit_of(budget, zg_page_retire, false), income - 2 * reserve, "retired pages as later blocks");
    budget.ran_ns = 1000 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), 8 * MS, "the whole start after some time: new code");
    CHECK_EQUAL(limit_of(budget, zg_page_first, false), 7 * MS, "first blocks");
    CHECK_EQUAL(limit_of(budget, zg_page_next, false), 5 * MS - 5 * MS / 8, "next blocks");
    budget.earned_ns = 30 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), 98 * MS, "three times the share");
    CHECK_EQUAL(limit_of(budget, zg_page_first, false), 67 * MS, "twice the share");
    budget.earned_ns = 1000 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_first, false), 1069 * MS, "64 ms in advance at most");
    CHECK_EQUAL(limit_of(budget, zg_page_first, true), 1005 * MS - 16 * MS, "a reserve of 16 ms at most");
    CHECK_EQUAL(limit_of(budget, zg_page_later, true), 1005 * MS - 64 * MS, "for each step of urgency");
    budget.forgone_ns = 900 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_next, false), 105 * MS - 105 * MS / 8, "what was kept too long is gone");
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), 3008 * MS, "but not for new code");
    budget.granted_ns = 7 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), 3015 * MS, "what is granted comes besides");
}

static void check_retired_part(void) {
    struct zg_page_budget budget = {.ran_ns = 1000 * MS, .earned_ns = 35 * MS};
    budget.retired_ns = 10 * MS - 1;
    CHECK(zg_budget_allows(&budget, zg_page_retire, false), "a quarter of 40 ms");
    budget.retired_ns = 10 * MS;
    CHECK(!zg_budget_allows(&budget, zg_page_retire, false), "and no more");
    CHECK(zg_budget_allows(&budget, zg_page_later, false), "of retired pages alone");
}

static void check_income(void) {
    struct zg_page_budget budget = {0};
    CHECK(zg_budget_is_early(&budget), "nothing has run");
    zg_budget_note_ran(&budget, 20 * MS - 1, 30);
    CHECK(zg_budget_is_early(&budget), "just below 20 ms");
    zg_budget_note_ran(&budget, 20 * MS, 30);
    CHECK(!zg_budget_is_early(&budget), "20 ms");
    CHECK_EQUAL(budget.earned_ns, 20 * MS * 30 / 1000, "3 % of the processor time");
    CHECK_EQUAL(budget.forgone_ns, 0, "all is kept");
    zg_budget_note_ran(&budget, 100000 * MS, 30);
    CHECK_EQUAL(budget.earned_ns, 3000 * MS, "of 100 s");
    // The start allowance is computed from the previous reading of 20 ms: 3 ms and a sixteenth of 20 ms.
    CHECK_EQUAL(budget.forgone_ns, 3000 * MS + 3 * MS + 20 * MS / 16 - 64 * MS, "64 ms are kept");
    CHECK_EQUAL(zg_budget_permille(30, 0), 30, "isolated_overhead alone");
    CHECK_EQUAL(zg_budget_permille(30, 100), 30, "less than half of overhead");
    CHECK_EQUAL(zg_budget_permille(30, 60), 30, "as much");
    CHECK_EQUAL(zg_budget_permille(30, 50), 25, "half of overhead");
}

static void check_children_and_tests(void) {
    struct zg_page_budget budget = {.spent_ns = MS, .ran_ns = 50 * MS, .earned_ns = 500 * MS};
    zg_budget_begin_child(&budget, 60 * MS);
    CHECK_EQUAL(limit_of(budget, zg_page_new_code, false), MS + 300000, "a child has 300 us");
    budget.ran_ns = 68 * MS;
    CHECK_EQUAL(limit_of(budget, zg_page_later, false), MS + 300000 + MS, "and an eighth of its time");
    budget.spent_ns = 100 * MS;
    zg_budget_grant(&budget);
    CHECK_EQUAL(budget.granted_ns, 0, "within the limit of first blocks nothing is granted");
    CHECK_EQUAL(limit_of(budget, zg_page_first, false), 101 * MS, "a test in a child has 1 ms");
    struct zg_page_budget other = {.spent_ns = 90 * MS};
    zg_budget_grant(&other);
    CHECK_EQUAL(limit_of(other, zg_page_first, false), 91 * MS, "so has a test elsewhere");
    zg_budget_grant(&other);
    CHECK_EQUAL(limit_of(other, zg_page_first, false), 91 * MS, "once, until it is spent");
}

static void check_costs(void) {
    CHECK_EQUAL(zg_budget_measured_ns(500, 1), 500, "what was measured");
    CHECK_EQUAL(zg_budget_measured_ns(8600, 1), 8600, "up to what the calls can take");
    CHECK_EQUAL(zg_budget_measured_ns(8601, 1), 8600, "and no more");
    CHECK_EQUAL(zg_budget_measured_ns(MS, 100), 68000, "by its pages");
    CHECK_EQUAL(zg_budget_fresh_ns(2), 6000, "fresh pages");
    CHECK_EQUAL(zg_budget_charged_pages(1), 0, "the first page was touched");
    CHECK_EQUAL(zg_budget_charged_pages(17), 16, "sixteen others");
    CHECK_EQUAL(zg_budget_charged_pages(18), 16, "at most");
}

// --- memory of private pages -----------------------------------------------------------------------------------------

static uint64_t private_most(struct zg_isolation_conditions conditions, struct zg_private_limits limits, bool first,
                             enum zg_coverage_reason reason) {
    enum zg_coverage_reason found;
    uint64_t most = zg_policy_private_most(&conditions, &limits, first, &found);
    CHECK_EQUAL(found, reason, "the reason");
    return most;
}

static void check_private_memory(void) {
    struct zg_private_limits limits = {.isolated_bytes = 100 * MIB, .machine_most = GIB / 2};
    struct zg_isolation_conditions few = with_live(32 * MIB), all = where_all(32 * MIB), narrow = where_narrow(8 * MIB);
    CHECK_EQUAL(private_most(few, limits, false, zg_coverage_reason_fence_bytes), 4 * MIB, "4 MiB");
    few.live_bytes = 40 * MIB;
    CHECK_EQUAL(private_most(few, limits, false, zg_coverage_reason_fence_bytes), 5 * MIB, "or an eighth");
    CHECK_EQUAL(private_most(few, limits, true, zg_coverage_reason_fence_bytes), 10 * MIB, "first blocks: twice that");
    few.live_bytes = 100 * GIB;
    CHECK_EQUAL(private_most(few, limits, true, zg_coverage_reason_fence_bytes), 100 * MIB,
                "never more than the option");
    limits.is_given = true;
    few.live_bytes = 0;
    CHECK_EQUAL(private_most(few, limits, false, zg_coverage_reason_fence_bytes), 100 * MIB,
                "an option that was given");
    limits.is_given = false;
    CHECK_EQUAL(private_most(narrow, limits, false, zg_coverage_reason_fence_bytes), 256 << 10, "narrow: 256 KiB");
    narrow.live_bytes = 64 * MIB;
    CHECK_EQUAL(private_most(narrow, limits, true, zg_coverage_reason_fence_bytes), 4 * MIB, "or a 32nd, twice");
    CHECK_EQUAL(private_most(all, limits, false, zg_coverage_reason_fence_bytes), 100 * MIB,
                "profile fence: the option");
    limits.machine_most = zg_policy_machine_most(200 * MIB);
    CHECK_EQUAL(private_most(all, limits, false, zg_coverage_reason_memory), 100 * MIB, "half of the machine's memory");
    limits.machine_most = zg_policy_machine_most(200 * MIB + 2);
    CHECK_EQUAL(private_most(all, limits, false, zg_coverage_reason_fence_bytes), 100 * MIB, "just more than that");
    limits.machine_most = zg_policy_machine_most(0);
    limits.isolated_bytes = UINT64_MAX - 1;
    CHECK_EQUAL(private_most(all, limits, false, zg_coverage_reason_fence_bytes), UINT64_MAX - 1,
                "unknown memory: no limit");
    all.is_narrow = true;
    CHECK_EQUAL(private_most(all, limits, true, zg_coverage_reason_pressure), 0, "profile fence, narrow: nothing");
    limits.is_short = true;
    all.is_narrow = false;
    CHECK_EQUAL(private_most(all, limits, true, zg_coverage_reason_pressure), 0, "short memory: nothing");
    CHECK_EQUAL(private_most(few, limits, true, zg_coverage_reason_pressure), 0, "for anybody");
}

static void check_affordable(void) {
    struct zg_isolation_conditions all = where_all(0), few = with_live(0);
    CHECK(zg_policy_is_affordable(&all, 2 * MIB - 1, GIB, false), "profile fence: below 2 MiB of any block");
    CHECK(!zg_policy_is_affordable(&all, 2 * MIB, 0, false), "2 MiB");
    CHECK(zg_policy_is_affordable(&all, 4 * MIB - 1, GIB, true), "first blocks: below 4 MiB");
    CHECK(!zg_policy_is_affordable(&all, 4 * MIB, 0, true), "4 MiB");
    all.live_bytes = 40 * MIB;
    CHECK(zg_policy_is_affordable(&all, 10 * MIB - 1, GIB, false), "below a quarter");
    CHECK(!zg_policy_is_affordable(&all, 10 * MIB, 0, false), "a quarter");
    CHECK(zg_policy_is_affordable(&few, GIB, MIB - 1, false), "elsewhere: below 1 MiB of small blocks");
    CHECK(!zg_policy_is_affordable(&few, 0, MIB, false), "1 MiB");
    few.live_bytes = 128 * MIB;
    CHECK(zg_policy_is_affordable(&few, GIB, 2 * MIB - 1, false), "below a 64th");
    CHECK(!zg_policy_is_affordable(&few, 0, 2 * MIB, false), "a 64th");
    CHECK(zg_policy_is_small(2048) && !zg_policy_is_small(2049), "small blocks leave half of a page empty");
}

static void check_retired_private_pages(void) {
    struct zg_isolation_conditions conditions = with_live(0);
    CHECK_EQUAL(zg_policy_private_records_most(&conditions, false), 2 * MIB, "records take 2 MiB");
    conditions.live_bytes = 80 * MIB;
    CHECK_EQUAL(zg_policy_private_records_most(&conditions, false), 10 * MIB, "or an eighth");
    CHECK_EQUAL(zg_policy_private_records_most(&conditions, true), UINT64_MAX, "no bound where the user gave one");
    CHECK_EQUAL(zg_policy_private_addresses_most(GIB, GIB), GIB, "retired_bytes");
    CHECK_EQUAL(zg_policy_private_addresses_most(GIB, 100), 50 * ZG_PAGE_BYTES, "or half of the addresses");
    int at_start = 0;
    for (int number = 0; number < 256; number++) {
        bool is_start = zg_policy_stands_at_start((uint8_t)number);
        CHECK_EQUAL(is_start, number % 4 == 1, "every fourth block from the second on");
        at_start += is_start;
    }
    CHECK_EQUAL(at_start, 64, "a quarter");
    CHECK(zg_policy_may_close_run(399) && !zg_policy_may_close_run(400), "400 runs of closed chunks");
}

// --- windows ---------------------------------------------------------------------------------------------------------

static uint32_t slot_bytes(struct zg_isolation_conditions conditions, uint64_t size, uint64_t alignment) {
    uint32_t class = zg_policy_slot_class(&conditions, size, alignment);
    return class < ZG_CLASS_COUNT ? zg_class_bytes(class) : 0;
}

static void check_slots(void) {
    struct zg_isolation_conditions any = with_live(0), few = where_few(0);
    CHECK_EQUAL(slot_bytes(any, 0, 16), 0, "no block of 0 bytes");
    CHECK_EQUAL(slot_bytes(any, 1, 16), 32, "32 bytes at least");
    CHECK_EQUAL(slot_bytes(any, 24, 16), 32, "8 bytes behind the block");
    CHECK_EQUAL(slot_bytes(any, 25, 16), 48, "else the next class");
    CHECK_EQUAL(slot_bytes(few, 25, 16), 64, "where few blocks lie in windows a power of two");
    CHECK_EQUAL(slot_bytes(any, 2040, 16), 2048, "the largest block");
    CHECK_EQUAL(slot_bytes(any, 2041, 16), 0, "no larger one");
    CHECK_EQUAL(slot_bytes(any, 100, 8), 112, "an alignment below 16 is 16");
    CHECK_EQUAL(slot_bytes(any, 100, 64), 128, "a slot of an aligned size");
    CHECK_EQUAL(slot_bytes(any, 100, 1024), 1024, "slots begin at multiples of their size");
    CHECK_EQUAL(slot_bytes(any, 1600, 1024), 2048, "two in a page");
    CHECK_EQUAL(slot_bytes(any, 100, 2048), 0, "no larger alignment");
    for (uint64_t size = 1; size <= 2040; size++)
        for (uint64_t alignment = 1; alignment <= 1024; alignment *= 2) {
            uint32_t found = slot_bytes(any, size, alignment), power = slot_bytes(few, size, alignment);
            if (found < size + 8 || found % alignment || found > 2048) CHECK(false, "a slot holds its block");
            if (power < found || !zg_is_power_of_two(power) || power > 2048) CHECK(false, "also with few sizes");
        }
}

static void check_chunks(void) {
    uint32_t expected[] = {8, 16, 32, 64, 128, 128}, pages = 0;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        pages = zg_policy_next_chunk_pages(pages);
        CHECK_EQUAL(pages, expected[i], "each chunk is twice as large, up to 128 pages");
    }
    struct zg_isolation_conditions any = with_live(0), few = where_few(0);
    CHECK(zg_policy_wants_larger_chunk(&any, 8, 64, 2 * MIB - 1), "after eight windows, below 2 MiB");
    CHECK(!zg_policy_wants_larger_chunk(&any, 7, 64, 0), "not after seven");
    CHECK(!zg_policy_wants_larger_chunk(&any, 8, 128, 0), "not beyond the largest");
    CHECK(!zg_policy_wants_larger_chunk(&any, 8, 64, 2 * MIB), "not at 2 MiB");
    any.live_bytes = 10 * MIB;
    CHECK(zg_policy_wants_larger_chunk(&any, 8, 64, 5 * MIB - 1), "below half");
    CHECK(!zg_policy_wants_larger_chunk(&any, 8, 64, 5 * MIB), "half");
    CHECK(zg_policy_wants_larger_chunk(&few, 8, 64, (256 << 10) - 1), "few: below 256 KiB");
    CHECK(!zg_policy_wants_larger_chunk(&few, 8, 64, 256 << 10), "few: 256 KiB");
    few.live_bytes = 64 * MIB;
    CHECK(zg_policy_wants_larger_chunk(&few, 8, 64, 2 * MIB - 1), "few: below a 32nd");
    CHECK(!zg_policy_wants_larger_chunk(&few, 8, 64, 2 * MIB), "few: a 32nd");
}

static void check_free_pages(void) {
    struct zg_isolation_conditions any = with_live(0), narrow = where_narrow(0);
    for (uint32_t pages = 8; pages <= 128; pages *= 2) {
        CHECK(zg_policy_has_enough_free_pages(pages, pages / 2), "half of the pages");
        CHECK(!zg_policy_has_enough_free_pages(pages, pages / 2 - 1), "less than half");
        CHECK(zg_policy_has_enough_reusable_pages(pages, pages / 8), "an eighth");
        CHECK(!zg_policy_has_enough_reusable_pages(pages, pages / 8 - 1), "less than an eighth");
        CHECK(!zg_policy_is_worth_entering(&any, pages, pages / 2 - 1), "another window, or none");
        CHECK(zg_policy_is_worth_entering(&any, pages, pages / 2), "another window");
        CHECK(zg_policy_is_worth_entering(&narrow, pages, pages / 8), "narrow: a window again");
        CHECK(!zg_policy_is_worth_entering(&narrow, pages, pages / 8 - 1), "narrow: not for so few");
    }
}

static void check_window_bounds(void) {
    struct zg_isolation_conditions any = with_live(0), narrow = where_narrow(GIB);
    CHECK_EQUAL(zg_policy_closed_pages_most(&any, 100 * GIB, 32), 32768, "closed pages keep their records");
    any.live_bytes = 16 * MIB;
    CHECK_EQUAL(zg_policy_closed_pages_most(&any, 100 * GIB, 32), 65536, "or records of an eighth");
    CHECK_EQUAL(zg_policy_closed_pages_most(&any, MIB, 32), 256, "within retired_bytes");
    CHECK_EQUAL(zg_policy_closed_pages_most(&narrow, MIB, 32), 4096, "narrow: 4,096");
    any.live_bytes = 0;
    CHECK_EQUAL(zg_policy_mapped_pages_most(&any), 128, "512 KiB in the page tables");
    any.live_bytes = 32 * MIB;
    CHECK_EQUAL(zg_policy_mapped_pages_most(&any), 256, "or a 32nd");
    any.live_bytes = 0;
    CHECK_EQUAL(zg_policy_pending_bytes_least(), 256 << 10, "256 KiB wait for guards");
    CHECK_EQUAL(zg_policy_pending_bytes_most(&any), 256 << 10, "at least");
    any.live_bytes = 8 * MIB;
    CHECK_EQUAL(zg_policy_pending_bytes_most(&any), MIB, "or an eighth");
    CHECK_EQUAL(zg_policy_pending_bytes_most(&narrow), 256 << 10, "not where memory is narrow");
    CHECK_EQUAL(zg_policy_single_guards_ns_most(0), 50 * MS, "50 ms for single guards");
    CHECK_EQUAL(zg_policy_single_guards_ns_most(1000 * MS), 100 * MS, "and a twentieth");
    CHECK_EQUAL(zg_policy_single_guard_ns(4000), 4000, "a call counts as it was measured");
    CHECK_EQUAL(zg_policy_single_guard_ns(4001), 4000, "up to 4 us");
    struct zg_isolation_conditions few = where_few(0);
    CHECK(!zg_policy_ends_windows(&few, 3) && zg_policy_ends_windows(&few, 4), "after four forks no more windows");
    CHECK(!zg_policy_ends_windows(&any, 1000), "unless all small blocks are to lie there");
}

// --- lifetimes, retired pages, open guards ---------------------------------------------------------------------------

static void check_lifetimes(void) {
    uint8_t score = 0;
    CHECK_EQUAL(zg_policy_score_ended(0), 0, "not below 0");
    for (int i = 0; i < 4; i++) {
        CHECK(!zg_policy_is_long_lived(score), "not long-lived yet");
        score = zg_policy_score_lasted(score);
    }
    CHECK_EQUAL(score, 8, "four blocks that lasted");
    CHECK(zg_policy_is_long_lived(score), "make it long-lived");
    CHECK(!zg_policy_is_long_lived(zg_policy_score_ended(score)), "one that ended early does not");
    for (int i = 0; i < 100; i++) score = zg_policy_score_lasted(score);
    CHECK_EQUAL(score, 16, "bounded");
    CHECK_EQUAL(zg_policy_score_lasted(15), 15, "also from an odd number");
}

static void check_retired_slots(void) {
    CHECK(!zg_policy_phase_is_full(MIB) && zg_policy_phase_is_full(MIB + 1), "a phase holds 1 MiB");
    CHECK_EQUAL(zg_policy_backoff_ns(64 * MS, 1, 4), MS, "a quarter was retired: soon again");
    CHECK_EQUAL(zg_policy_backoff_ns(64 * MS, 1, 5), 128 * MS, "less: twice the pause");
    CHECK_EQUAL(zg_policy_backoff_ns(64 * MS, 0, 0), MS, "nothing was touched");
    CHECK_EQUAL(zg_policy_backoff_ns(1500 * MS, 0, 1), 2000 * MS, "2 s at most");
    struct zg_isolation_conditions conditions = with_live(0);
    CHECK(!zg_policy_retired_are_too_many(&conditions, GIB, GIB, 2 * MIB, false), "as much as may be");
    CHECK(zg_policy_retired_are_too_many(&conditions, GIB + 1, GIB, 0, false), "more than retired_bytes");
    CHECK(zg_policy_retired_are_too_many(&conditions, 0, GIB, 2 * MIB + 1, false), "more than 2 MiB of records");
    CHECK(!zg_policy_retired_are_too_many(&conditions, 0, GIB, 4 * MIB, true), "twice that after a trim");
    CHECK(zg_policy_retired_are_too_many(&conditions, 0, GIB, 4 * MIB + 1, true), "and no more");
    conditions.live_bytes = 640 * MIB;
    CHECK(!zg_policy_retired_are_too_many(&conditions, 0, GIB, 10 * MIB, false), "a 64th");
    CHECK(zg_policy_retired_are_too_many(&conditions, 0, GIB, 10 * MIB + 1, false), "more than a 64th");
}

static void check_open_guards(void) {
    CHECK(zg_policy_is_near_guard(0) && zg_policy_is_near_guard(63) && !zg_policy_is_near_guard(64),
          "a vector of 64 bytes");
    CHECK(!zg_policy_opens_guard(7, 5) && zg_policy_opens_guard(8, 5), "two whole steps have passed");
    CHECK(zg_policy_opens_guard(2, UINT32_MAX), "also where the count wraps around");
}

static void check_ends(void) {
    static const uint8_t small[] = {[1] = 2, [2] = 2, [3] = 4, [4] = 4, [5] = 8, [6] = 8, [7] = 8, [8] = 8};
    for (uint64_t size = 1; size < 10000; size++) {
        uint64_t wanted = size <= 8 ? small[size] : 16, natural = size & -size;
        CHECK_EQUAL(zg_policy_end_alignment(size), wanted, "small blocks end as far as what fits needs it");
        natural = natural < 16 ? natural : 16;
        CHECK_EQUAL(zg_policy_string_alignment(size, true), natural, "strings end exactly");
        CHECK_EQUAL(zg_policy_string_alignment(size, false), natural > 1 ? natural : 2, "at no odd address");
    }
}

int main(void) {
    check_table();
    check_first_blocks();
    check_ends();
    check_later_blocks();
    check_all_blocks();
    check_preference();
    check_budget_limits();
    check_retired_part();
    check_income();
    check_children_and_tests();
    check_costs();
    check_private_memory();
    check_affordable();
    check_retired_private_pages();
    check_slots();
    check_chunks();
    check_free_pages();
    check_window_bounds();
    check_lifetimes();
    check_retired_slots();
    check_open_guards();
    return check_end();
}
