// Chooses which blocks are isolated: asks the policy, and keeps a record of each context.
// Slow path; no lock. Concurrent choices may read slightly stale counts.

#include "pages/choice.h"

#include "pages/private_pages.h"
#include "pages/page_time.h"
#include "pages/protect.h"
#include "pages/window.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "stacks/watched.h"

// The record of a context is a 32-bit word: the number of its blocks that were isolated in an epoch, that epoch, its
// enum zg_focus (FOCUS), whether earlier runs watched a part of its pairs (PARTLY_WATCHED), and whether the statistics
// count the context as seen (SEEN) and as isolated (EVER_ISOLATED). Contexts have dense numbers, so pages of the table
// without a context have no memory. Contexts beyond ZG_DEPOT_PLACES share records.
enum { ISOLATED_BITS = 16, EPOCH_BITS = 11, FOCUS_SHIFT = ISOLATED_BITS + EPOCH_BITS };
#define ISOLATED_MOST ((UINT32_C(1) << ISOLATED_BITS) - 1)
#define EPOCH_MASK (((UINT32_C(1) << EPOCH_BITS) - 1) << ISOLATED_BITS)
#define FOCUS (UINT32_C(3) << FOCUS_SHIFT)
#define PARTLY_WATCHED (UINT32_C(1) << 29)
#define SEEN (UINT32_C(1) << 30)
#define EVER_ISOLATED (UINT32_C(1) << 31)
#define FLAGS (FOCUS | PARTLY_WATCHED | SEEN | EVER_ISOLATED)

static uint32_t *records; // array of ZG_DEPOT_PLACES records
static uint32_t epoch;
// Number of further candidates for isolation that are turned down without reading the clock. Counts only candidates of
// contexts that already have an isolated block in this epoch.
static uint32_t skips;
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

// --- known code -----------------------------------------------------------------------------------------------------

// A Bloom filter (CACM 13:7, 1970) with two bits per entry. It holds the innermost frames of all contexts that have an
// isolated block. Some programs make new contexts all the time, but with few new innermost frames; the filter shows
// which contexts belong to new code.
static uint64_t known_code[(1 << ZG_POLICY_CODE_BITS) / 64];

static uint64_t code_of(uint32_t context) { return zg_depot_hash_inner(context, ZG_POLICY_CODE_FRAMES); }
static uint32_t first_bit(uint64_t code) { return code >> (64 - ZG_POLICY_CODE_BITS); }
static uint32_t second_bit(uint64_t code) { return code & ((1 << ZG_POLICY_CODE_BITS) - 1); }
static bool has_bit(uint32_t bit) { return __atomic_load_n(&known_code[bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1; }
static void set_bit(uint32_t bit) {
    __atomic_fetch_or(&known_code[bit / 64], UINT64_C(1) << bit % 64, __ATOMIC_RELAXED);
}

static bool is_new_code(uint64_t code) { return code && !(has_bit(first_bit(code)) && has_bit(second_bit(code))); }

// --- records of contexts --------------------------------------------------------------------------------------------

// Returns the record; if its count belongs to an earlier epoch, with this epoch and a count of 0.
static uint32_t in_this_epoch(uint32_t record) {
    uint32_t now = __atomic_load_n(&epoch, __ATOMIC_RELAXED) << ISOLATED_BITS & EPOCH_MASK;
    return (record & EPOCH_MASK) == now ? record : (record & FLAGS) | now;
}
static uint32_t record_of(uint32_t context) {
    return in_this_epoch(__atomic_load_n(&records[context % ZG_DEPOT_PLACES], __ATOMIC_RELAXED));
}
// Adds flags and a number of isolated blocks to the context's record. Returns the previous record. A compare-and-swap
// loses no flag, and lets only one thread see a flag change.
static uint32_t add_to_record(uint32_t context, uint32_t flags, uint32_t isolated) {
    uint32_t *place = &records[context % ZG_DEPOT_PLACES], stored = __atomic_load_n(place, __ATOMIC_RELAXED), record;
    do {
        record = in_this_epoch(stored);
    } while (!__atomic_compare_exchange_n(place, &stored,
                                          (record | flags) + ((record & ISOLATED_MOST) < ISOLATED_MOST ? isolated : 0),
                                          true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return record;
}

bool zg_choice_init(void) {
    records = zg_os_map_for_good(ZG_DEPOT_PLACES * sizeof *records);
    return records != NULL;
}

void zg_choice_begin_epoch(void) { __atomic_fetch_add(&epoch, 1, __ATOMIC_RELAXED); }

// --- the choice -----------------------------------------------------------------------------------------------------

static bool take_skip(void) {
    uint32_t left = __atomic_load_n(&skips, __ATOMIC_RELAXED);
    if (left) __atomic_store_n(&skips, left - 1, __ATOMIC_RELAXED);
    return left;
}

static enum zg_isolation decline(void) {
    zg_stats_add(zg_counter_fence_declined, 1);
    return zg_isolation_none;
}

static enum zg_isolation choose_where_all(const struct zg_isolation_request *request, uint64_t caller) {
    enum zg_preference preference =
        zg_policy_preference_where_all(request, zg_window_is_forced(), zg_page_time_is_early());
    bool prefers_window = preference == zg_preference_window;
    if (preference == zg_preference_by_rest)
        prefers_window = !zg_private_is_affordable(request->isolated < ZG_POLICY_PRIVATE_FIRST) ||
                         !zg_private_has_room(request->size, false);
    return prefers_window && zg_window_is_for(caller) ? zg_isolation_window : zg_isolation_private;
}

static bool prefers_window_where_some(const struct zg_isolation_request *request, enum zg_page_use use) {
    enum zg_preference preference = zg_policy_preference_where_some(request, zg_window_is_forced());
    if (preference != zg_preference_by_rest) return preference == zg_preference_window;
    return !zg_private_is_affordable(false) || !zg_page_time_allows(use, true) ||
           !zg_private_has_room(request->size, false);
}

static enum zg_isolation choose_where_some(const struct zg_isolation_request *request, struct zg_isolation_bid bid,
                                           uint32_t context, uint64_t caller) {
    if (bid.odds > 1 && zg_random(&random_state) % bid.odds) return zg_isolation_none;
    if (request->isolated && take_skip()) return decline();
    enum zg_page_use use = bid.use;
    if (use == zg_page_first && !zg_page_time_allows(use, false) && is_new_code(code_of(context)))
        use = zg_page_new_code;
    bool has_time = zg_page_time_allows(use, false);
    if (has_time && prefers_window_where_some(request, use) && zg_window_is_for(caller)) return zg_isolation_window;
    if (has_time && zg_private_has_room(request->size, use <= zg_page_first)) return zg_isolation_private;
    if (!has_time && request->isolated) __atomic_store_n(&skips, ZG_POLICY_SKIPPED_AFTER_DENIAL, __ATOMIC_RELAXED);
    if (!has_time && !request->is_later) zg_coverage_declined(zg_coverage_reason_fence_overhead);
    return decline();
}

// Counts a context that was not seen before, and looks it up among the focused stacks and in the records of earlier
// runs. If earlier runs watched all of the context's pairs, none of its blocks counts as a first block. If they watched
// only a part, its first blocks are chosen at random like later ones, because the unwatched pairs belong to other
// blocks.
static uint32_t see(uint32_t context, uint64_t caller) {
    enum zg_watched watched = zg_watched_is_on ? zg_watched_of(context) : zg_watched_unknown;
    uint32_t first = zg_policy_first_blocks(zg_config.isolated_per_context, caller && zg_window_may_be());
    uint32_t flags = SEEN | (zg_focus_is_on ? (uint32_t)zg_focus_of(context) << FOCUS_SHIFT : 0);
    bool is_done = watched == zg_watched_all && !(flags & FOCUS) && zg_config.isolated_per_context != ZG_FENCE_ALL;
    if (watched == zg_watched_partly) flags |= PARTLY_WATCHED;
    if (!(add_to_record(context, flags, is_done ? first : 0) & SEEN)) zg_stats_add(zg_counter_contexts, 1);
    if (is_done) zg_depot_mark_context_done(context);
    if (flags & PARTLY_WATCHED) random_state ^= zg_arch_ticks(); // to choose other blocks than earlier runs
    return record_of(context);
}

enum zg_focus zg_choice_focus(uint32_t context) {
    return zg_focus_is_on ? (enum zg_focus)((record_of(context) & FOCUS) >> FOCUS_SHIFT) : zg_focus_none;
}

enum zg_isolation zg_choice_decide(uint32_t context, uint64_t size, bool is_later, uint64_t caller) {
    uint32_t record = record_of(context);
    if (!(record & SEEN)) record = see(context, caller);
    // Count each block once: a block that was not isolated may be considered again (`is_later`) because its magazine is
    // empty.
    if (record & FOCUS && !is_later) zg_stats_add(zg_counter_focused_blocks, 1);
    if (zg_protection_is_stopped()) return zg_coverage_declined(zg_coverage_reason_no_faults), zg_isolation_none;
    // Blocks of focused contexts are isolated regardless of odds and budgets. They get private pages, because an
    // overrun within a window's slot does not fault.
    if (record & FOCUS) return zg_isolation_private;
    struct zg_isolation_request request = {
        .size = size,
        .isolated = record & ISOLATED_MOST,
        .is_partly_watched = record & PARTLY_WATCHED,
        .per_context = zg_config.isolated_per_context,
        .isolates_all = zg_config.isolated_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample,
        .is_later = is_later,
        .is_window_eligible = caller && zg_window_may_be(),
        .is_limited = zg_bypass_may_fail,
    };
    struct zg_isolation_bid bid = zg_policy_bid(&request);
    // If isolated_per_context is 0, examine each context only once, to find out whether it is focused.
    if (!bid.is_wanted && !zg_config.isolated_per_context) zg_depot_mark_context_done(context);
    if (!bid.is_wanted) return zg_isolation_none;
    if (request.isolates_all) return choose_where_all(&request, caller);
    return choose_where_some(&request, bid, context, caller);
}

void zg_choice_note_tagged(uint32_t context) {
    if (record_of(context) & EVER_ISOLATED) return;
    uint32_t record = add_to_record(context, SEEN | EVER_ISOLATED, 0);
    if (!(record & SEEN)) zg_stats_add(zg_counter_contexts, 1);
    if (!(record & EVER_ISOLATED)) zg_stats_add(zg_counter_contexts_fenced, 1);
}

void zg_choice_note_isolated(uint32_t context, uint64_t caller) {
    uint32_t record = add_to_record(context, EVER_ISOLATED, 1), isolated = record & ISOLATED_MOST;
    if (!(record & EVER_ISOLATED)) {
        zg_stats_add(zg_counter_contexts_fenced, 1);
        uint64_t code = code_of(context);
        set_bit(first_bit(code));
        set_bit(second_bit(code));
    }
    if (record & FOCUS) return zg_stats_add(zg_counter_focused_isolated, 1);
    if (record & PARTLY_WATCHED) return;
    if (isolated + 1 == zg_policy_first_blocks(zg_config.isolated_per_context, caller && zg_window_may_be())) {
        zg_depot_mark_context_done(context);
        zg_coverage_declined(zg_coverage_reason_fence_per_context);
    }
}
