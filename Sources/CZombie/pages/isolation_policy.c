// Implements the isolation policy with integer arithmetic only. Pure; any context, no lock.

#include "pages/isolation_policy.h"

#include "blocks/size_class.h"

// Returns the larger of a fixed number of bytes and a share of the live bytes.
static uint64_t share_of_live(const struct zg_isolation_conditions *conditions, uint64_t least, uint32_t shift) {
    return zg_max(least, conditions->live_bytes >> shift);
}

// --- processor time -------------------------------------------------------------------------------------------------

// Returns the time that is available without income: `at_once` at the start, growing with the processor time up to
// `whole`.
static uint64_t start_ns(const struct zg_page_budget *budget, uint64_t at_once, uint64_t whole) {
    return zg_min(whole, at_once + zg_load(&budget->ran_ns) / ZG_POLICY_START_PART);
}
static uint64_t common_start_ns(const struct zg_page_budget *budget) {
    return start_ns(budget, ZG_POLICY_START_AT_ONCE_NS, ZG_POLICY_START_NS);
}

// Returns a limit: this use may spend more while the time spent by all uses together is below the limit.
static uint64_t limit_ns(const struct zg_page_budget *budget, enum zg_page_use use, bool ample) {
    uint64_t granted = zg_load(&budget->granted_ns), earned = zg_load(&budget->earned_ns);
    uint64_t income = common_start_ns(budget) + granted + earned - zg_min(zg_load(&budget->forgone_ns), earned);
    uint64_t reserve = zg_min(income / ZG_POLICY_RESERVE_PART, ZG_POLICY_RESERVE_NS);
    if (use <= zg_page_first && ample)
        return income - zg_min(income / ZG_POLICY_AMPLE_FIRST_PART, ZG_POLICY_RESERVE_NS);
    if (use == zg_page_new_code)
        return start_ns(budget, ZG_POLICY_NEW_CODE_AT_ONCE_NS, ZG_POLICY_NEW_CODE_START_NS) + granted +
               ZG_POLICY_NEW_CODE_SHARE * earned;
    if (use == zg_page_first)
        return zg_min(start_ns(budget, ZG_POLICY_FIRST_AT_ONCE_NS, ZG_POLICY_FIRST_START_NS) + granted +
                          ZG_POLICY_FIRST_SHARE * earned,
                      income + ZG_POLICY_ADVANCE_NS);
    return income - reserve * (use == zg_page_next ? 1 : 2) * (ample ? 2 : 1);
}

// Returns the bound on the time spent by the child of a fork and, before the fork, by its parent.
static uint64_t child_limit_ns(const struct zg_page_budget *budget) {
    return budget->inherited_spent_ns + zg_load(&budget->child_at_once_ns) +
           (zg_load(&budget->ran_ns) - budget->inherited_ran_ns) / ZG_POLICY_CHILD_PART;
}

bool zg_budget_allows(const struct zg_page_budget *budget, enum zg_page_use use, bool ample) {
    if (use == zg_page_retire &&
        zg_load(&budget->retired_ns) >= (common_start_ns(budget) + zg_load(&budget->earned_ns)) / ZG_POLICY_RETIRE_PART)
        return false;
    uint64_t spent = zg_load(&budget->spent_ns);
    return spent < limit_ns(budget, use, ample) && (!budget->is_child || spent < child_limit_ns(budget));
}

bool zg_budget_is_early(const struct zg_page_budget *budget) { return zg_load(&budget->ran_ns) < ZG_POLICY_EARLY_NS; }

uint32_t zg_budget_permille(uint32_t isolated_overhead, uint32_t overhead) {
    return overhead && overhead / 2 < isolated_overhead ? overhead / 2 : isolated_overhead;
}

void zg_budget_note_ran(struct zg_page_budget *budget, uint64_t ran_ns, uint32_t permille) {
    uint64_t earned = ran_ns / 1000 * permille, forgone = zg_load(&budget->forgone_ns);
    uint64_t kept = zg_load(&budget->spent_ns) + ZG_POLICY_KEPT_NS + forgone;
    uint64_t income = common_start_ns(budget) + zg_load(&budget->granted_ns) + earned;
    if (income > kept) zg_store(&budget->forgone_ns, forgone + income - kept);
    zg_store(&budget->earned_ns, earned);
    zg_store(&budget->ran_ns, ran_ns);
}

void zg_budget_begin_child(struct zg_page_budget *budget, uint64_t ran_ns) {
    budget->is_child = true;
    budget->inherited_spent_ns = budget->spent_ns;
    budget->child_at_once_ns = ZG_POLICY_CHILD_AT_ONCE_NS;
    budget->inherited_ran_ns = budget->ran_ns = ran_ns;
}

void zg_budget_grant(struct zg_page_budget *budget) {
    uint64_t needed = zg_load(&budget->spent_ns) + ZG_POLICY_GRANT_NS, limit = limit_ns(budget, zg_page_first, false);
    if (limit < needed) __atomic_fetch_add(&budget->granted_ns, needed - limit, __ATOMIC_RELAXED);
    limit = budget->is_child ? child_limit_ns(budget) : needed;
    if (limit < needed) __atomic_fetch_add(&budget->child_at_once_ns, needed - limit, __ATOMIC_RELAXED);
}

uint64_t zg_budget_measured_ns(uint64_t ns, uint64_t pages) {
    return zg_min(ns, ZG_POLICY_CALL_NS_MOST + pages * ZG_POLICY_PAGE_NS_MOST);
}

uint64_t zg_budget_fresh_ns(uint64_t pages) { return ZG_POLICY_CALL_NS + pages * ZG_POLICY_FRESH_PAGE_NS; }

uint64_t zg_budget_charged_pages(uint64_t pages) { return zg_min(pages - 1, ZG_POLICY_CHARGED_PAGES_MOST); }

// --- the choice -----------------------------------------------------------------------------------------------------

// If all blocks are isolated, the first blocks of a context get private pages, and one in PRIVATE_EVERY of the later
// ones.
static bool is_private_turn(uint32_t isolated) {
    return isolated < ZG_POLICY_PRIVATE_FIRST || isolated % ZG_POLICY_PRIVATE_EVERY == 0;
}

uint32_t zg_policy_first_blocks(uint32_t per_context, bool is_window_eligible) {
    return per_context * (is_window_eligible ? ZG_POLICY_WINDOWED_FIRST_TIMES : 1);
}

bool zg_policy_is_too_large(uint64_t size) { return size > ZG_POLICY_BLOCK_BYTES_MOST; }

struct zg_isolation_bid zg_policy_bid(const struct zg_isolation_request *request) {
    struct zg_isolation_bid bid = {true, zg_page_first, 1};
    if (request->isolates_all) {
        // A program that has limited its address space has no windows any more, and private pages for all blocks would
        // take too long.
        bid.is_wanted = !request->is_limited || request->is_window_eligible || is_private_turn(request->isolated);
        return bid;
    }
    bid.is_wanted = request->per_context != 0;
    if (!bid.is_wanted || (!request->isolated && !request->is_partly_watched)) return bid;
    // The probability falls with the block's pages and with the number of the context's blocks after the first ones.
    uint32_t first_blocks = zg_policy_first_blocks(request->per_context, request->is_window_eligible);
    bid.use = zg_page_next;
    bid.odds = zg_min(request->size / ZG_PAGE_BYTES, ZG_POLICY_ODDS_PAGES_MOST) + 1;
    if (request->is_partly_watched) {
        bid.odds *= ZG_POLICY_PARTLY_WATCHED_ODDS;
        return bid;
    }
    if (request->isolated < first_blocks) return bid;
    uint32_t beyond = request->isolated - first_blocks;
    bid.is_wanted = request->is_later;
    bid.use = request->is_window_eligible ? zg_page_next : zg_page_later;
    bid.odds *= request->is_window_eligible ? beyond / ZG_POLICY_WINDOWED_LATER_BLOCKS + 1 : beyond + UINT64_C(2);
    return bid;
}

enum zg_preference zg_policy_preference_where_all(const struct zg_isolation_request *request, bool is_forced,
                                                  bool is_early) {
    if (!request->is_window_eligible) return zg_preference_private;
    if (is_forced) return zg_preference_window;
    return is_early || is_private_turn(request->isolated) ? zg_preference_by_rest : zg_preference_window;
}

enum zg_preference zg_policy_preference_where_some(const struct zg_isolation_request *request, bool is_forced) {
    if (!request->is_window_eligible) return zg_preference_private;
    return is_forced ? zg_preference_window : zg_preference_by_rest;
}

// --- memory of private pages ----------------------------------------------------------------------------------------

uint64_t zg_policy_machine_most(uint64_t machine_memory) {
    return machine_memory ? machine_memory / ZG_POLICY_MEMORY_PART : UINT64_MAX;
}

uint64_t zg_policy_private_most(const struct zg_isolation_conditions *conditions,
                                const struct zg_private_limits *limits, bool first, enum zg_coverage_reason *reason) {
    *reason = zg_coverage_reason_pressure;
    if (limits->is_short || (conditions->isolates_all && conditions->is_narrow)) return 0;
    uint64_t most = limits->isolated_bytes;
    if (!conditions->isolates_all && !limits->is_given) {
        uint64_t share = conditions->is_narrow
                             ? share_of_live(conditions, ZG_POLICY_NARROW_SHARE_BYTES, ZG_POLICY_NARROW_SHARE_SHIFT)
                             : share_of_live(conditions, ZG_POLICY_SHARE_BYTES, ZG_POLICY_SHARE_SHIFT);
        most = zg_min(most, first ? ZG_POLICY_FIRST_ROOM_TIMES * share : share);
    }
    *reason = most >= limits->machine_most ? zg_coverage_reason_memory : zg_coverage_reason_fence_bytes;
    return zg_min(most, limits->machine_most);
}

bool zg_policy_is_affordable(const struct zg_isolation_conditions *conditions, uint64_t private_bytes,
                             uint64_t small_bytes, bool is_first) {
    uint64_t least = (uint64_t)ZG_POLICY_AFFORDABLE_BYTES * (is_first ? ZG_POLICY_AFFORDABLE_FIRST_TIMES : 1);
    if (conditions->isolates_all)
        return private_bytes < zg_max(least, conditions->live_bytes / ZG_POLICY_AFFORDABLE_PART);
    return small_bytes < share_of_live(conditions, ZG_POLICY_SMALL_BYTES, ZG_POLICY_SMALL_SHIFT);
}

bool zg_policy_is_small(uint64_t size) { return size <= ZG_PAGE_BYTES / 2; }

uint64_t zg_policy_private_records_most(const struct zg_isolation_conditions *conditions, bool is_given) {
    return is_given ? UINT64_MAX : share_of_live(conditions, ZG_POLICY_RECORD_BYTES, ZG_POLICY_RECORD_SHIFT);
}

uint64_t zg_policy_private_addresses_most(uint64_t retired_bytes, uint64_t area_pages) {
    return zg_min(retired_bytes, area_pages * ZG_PAGE_BYTES / 2);
}

bool zg_policy_stands_at_start(uint8_t number) { return number % ZG_POLICY_START_EVERY == ZG_POLICY_START_AT; }

uint64_t zg_policy_end_alignment(uint64_t size) {
    uint64_t alignment = ZG_POLICY_TAG_BYTES;
    if (size > ZG_POLICY_SMALL_OBJECT_BYTES) return ZG_POLICY_MALLOC_ALIGNMENT;
    while (alignment < size) alignment *= 2;
    return alignment;
}

uint64_t zg_policy_string_alignment(uint64_t size, bool may_be_odd) {
    // The end is aligned to the largest power of two that divides the size, because the same code may also allocate
    // objects, whose size is a multiple of their alignment.
    uint64_t natural = zg_min(size & -size, ZG_POLICY_MALLOC_ALIGNMENT);
    return zg_max(natural, may_be_odd ? 1 : ZG_POLICY_TAG_BYTES);
}

bool zg_policy_may_close_run(uint32_t closed_runs) { return closed_runs < ZG_POLICY_CLOSED_RUNS_MOST; }

// --- windows --------------------------------------------------------------------------------------------------------

uint32_t zg_policy_slot_class(const struct zg_isolation_conditions *conditions, uint64_t size, uint64_t alignment) {
    if (!size || size > ZG_POLICY_WINDOW_BLOCK_BYTES_MOST || alignment > ZG_POLICY_WINDOW_BLOCK_BYTES_MOST)
        return ZG_CLASS_COUNT;
    uint32_t class = zg_size_class(zg_max(size + ZG_POLICY_GAP_BYTES_LEAST, ZG_POLICY_SLOT_BYTES_LEAST));
    for (alignment = zg_max(alignment, 16); class < ZG_CLASS_COUNT; class++) {
        uint32_t bytes = zg_class_bytes(class);
        if (bytes & (alignment - 1) || (conditions->has_few_in_windows && bytes & (bytes - 1))) continue;
        return bytes <= ZG_PAGE_BYTES / 2 ? class : ZG_CLASS_COUNT;
    }
    return ZG_CLASS_COUNT;
}

uint32_t zg_policy_next_chunk_pages(uint32_t last_pages) {
    return last_pages ? (uint32_t)zg_min(2 * last_pages, ZG_POLICY_CHUNK_PAGES_MOST) : ZG_POLICY_CHUNK_PAGES_LEAST;
}

bool zg_policy_wants_larger_chunk(const struct zg_isolation_conditions *conditions, uint32_t windows, uint32_t pages,
                                  uint64_t memory_bytes) {
    uint64_t most = conditions->has_few_in_windows
                        ? share_of_live(conditions, ZG_POLICY_SOME_CHUNKS_GROW_BYTES, ZG_POLICY_SOME_CHUNKS_GROW_SHIFT)
                        : share_of_live(conditions, ZG_POLICY_CHUNKS_GROW_BYTES, ZG_POLICY_CHUNKS_GROW_SHIFT);
    return windows >= ZG_POLICY_WINDOWS_PER_CHUNK_SIZE && pages < ZG_POLICY_CHUNK_PAGES_MOST && memory_bytes < most;
}

bool zg_policy_has_enough_free_pages(uint32_t pages, uint32_t open_pages) {
    return open_pages >= pages / ZG_POLICY_WORTH_WINDOW_PART;
}

bool zg_policy_has_enough_reusable_pages(uint32_t pages, uint32_t reusable_pages) {
    return reusable_pages >= pages / ZG_POLICY_WORTH_REUSE_PART;
}

bool zg_policy_is_worth_entering(const struct zg_isolation_conditions *conditions, uint32_t pages,
                                 uint32_t open_pages) {
    return zg_policy_has_enough_free_pages(pages, open_pages) ||
           (conditions->is_narrow && zg_policy_has_enough_reusable_pages(pages, open_pages));
}

uint64_t zg_policy_closed_pages_most(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                     uint64_t record_bytes) {
    if (conditions->is_narrow) return ZG_POLICY_NARROW_CLOSED_PAGES;
    uint64_t share = (conditions->live_bytes >> ZG_POLICY_CLOSED_SHIFT) / record_bytes;
    return zg_min(retired_bytes / ZG_PAGE_BYTES, zg_max(ZG_POLICY_CLOSED_PAGES, share));
}

uint64_t zg_policy_mapped_pages_most(const struct zg_isolation_conditions *conditions) {
    return share_of_live(conditions, ZG_POLICY_MAPPED_BYTES, ZG_POLICY_MAPPED_SHIFT) / ZG_PAGE_BYTES;
}

uint64_t zg_policy_pending_bytes_least(void) { return ZG_POLICY_PENDING_BYTES; }

uint64_t zg_policy_pending_bytes_most(const struct zg_isolation_conditions *conditions) {
    if (conditions->is_narrow) return ZG_POLICY_PENDING_BYTES;
    return share_of_live(conditions, ZG_POLICY_PENDING_BYTES, ZG_POLICY_PENDING_SHIFT);
}

uint64_t zg_policy_single_guards_ns_most(uint64_t ran_ns) {
    return ZG_POLICY_SINGLE_GUARD_START_NS + ran_ns / ZG_POLICY_SINGLE_GUARD_PART;
}

uint64_t zg_policy_single_guard_ns(uint64_t ns) { return zg_min(ns, ZG_POLICY_SINGLE_GUARD_NS_MOST); }

bool zg_policy_ends_windows(const struct zg_isolation_conditions *conditions, uint32_t forks) {
    return conditions->has_few_in_windows && forks >= ZG_POLICY_FORKS_MOST;
}

// --- lifetimes ------------------------------------------------------------------------------------------------------

uint8_t zg_policy_score_lasted(uint8_t score) {
    return score + ZG_POLICY_SCORE_LASTED <= ZG_POLICY_SCORE_MOST ? (uint8_t)(score + ZG_POLICY_SCORE_LASTED) : score;
}

uint8_t zg_policy_score_ended(uint8_t score) { return score ? (uint8_t)(score - 1) : 0; }

bool zg_policy_is_long_lived(uint8_t score) { return score >= ZG_POLICY_SCORE_LONG; }

// --- retired pages of the slab heap ---------------------------------------------------------------------------------

bool zg_policy_phase_is_full(uint64_t held_bytes) { return held_bytes > ZG_POLICY_HELD_BYTES_MOST; }

uint64_t zg_policy_backoff_ns(uint64_t backoff_ns, uint32_t retired_runs, uint32_t touched_runs) {
    if (retired_runs * ZG_POLICY_PHASE_PAYS_PART >= touched_runs) return ZG_POLICY_BACKOFF_NS_LEAST;
    return zg_min(backoff_ns * 2, ZG_POLICY_BACKOFF_NS_MOST);
}

bool zg_policy_retired_are_too_many(const struct zg_isolation_conditions *conditions, uint64_t retired_bytes,
                                    uint64_t retired_bytes_most, uint64_t record_bytes, bool was_trimmed) {
    uint64_t records_most = share_of_live(conditions, ZG_POLICY_RETIRED_RECORD_BYTES, ZG_POLICY_RETIRED_RECORD_SHIFT);
    if (was_trimmed) records_most *= ZG_POLICY_TRIMMED_RECORD_TIMES;
    return retired_bytes > retired_bytes_most || record_bytes > records_most;
}

// --- guard pages behind live blocks ---------------------------------------------------------------------------------

bool zg_policy_is_near_guard(uint64_t bytes_to_guard) { return bytes_to_guard < ZG_POLICY_VECTOR_BYTES; }

bool zg_policy_opens_guard(uint32_t now_step, uint32_t made_step) { return now_step - made_step > ZG_POLICY_AGE_STEPS; }
