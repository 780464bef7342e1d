// The choice of blocks that get pages of their own. Slow path; no lock: choices are approximate where threads meet.

#include "pages/choice.h"

#include "pages/fence.h"
#include "pages/page_time.h"
#include "pages/protect.h"
#include "pages/window.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "stacks/depot.h"

enum {
    SHARE_PAGES_MOST = 255,
    CODE_FRAMES = 4,
    CODE_BITS = 18,
    PRIVATE_FIRST = 4,
    PASSED = 32,          // blocks for which the clock is not asked again, once there was no time for one
    WINDOWED_LATER = 256, // blocks of a context until half as many of the later ones get windows
    WINDOWED_MORE = 2,    // so many times fence_per_context blocks are the first ones, where windows make them cheap
};

// Blocks of a context, whose numbers are dense; untouched pages cost nothing. Contexts beyond these many share their counts.
// A word each: how many were fenced in the epoch, that epoch, and whether the statistics count the context as seen and as fenced.
enum { FENCED_BITS = 16, EPOCH_BITS = 14 };
#define FENCED_MOST ((UINT32_C(1) << FENCED_BITS) - 1)
#define EPOCH_MASK (((UINT32_C(1) << EPOCH_BITS) - 1) << FENCED_BITS)
#define SEEN (UINT32_C(1) << 30)
#define EVER_FENCED (UINT32_C(1) << 31)

static uint32_t *counts, epoch; // ZG_DEPOT_PLACES of the former
static uint32_t passes;         // blocks that need not ask; none of them the first of its context
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

// The innermost calls of the stacks of which a block was fenced: a Bloom filter (CACM 13:7, 1970) with two bits each. In a
// program whose stacks are new again and again these are not, and a stack that comes from other code stands out.
static uint64_t known_code[(1 << CODE_BITS) / 64];

static uint64_t code_of(uint32_t context) {
    uint64_t frames[CODE_FRAMES], hash = 0;
    for (int i = zg_depot_get(context, frames, CODE_FRAMES); i > 0; i--) hash = zg_depot_hash(hash, frames[i - 1]);
    return hash;
}
static uint32_t first_bit(uint64_t code) { return code >> (64 - CODE_BITS); }
static uint32_t second_bit(uint64_t code) { return code & ((1 << CODE_BITS) - 1); }
static bool has_bit(uint32_t bit) { return __atomic_load_n(&known_code[bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1; }
static void set_bit(uint32_t bit) {
    __atomic_fetch_or(&known_code[bit / 64], UINT64_C(1) << bit % 64, __ATOMIC_RELAXED);
}

static bool is_new_code(uint64_t code) { return code && !(has_bit(first_bit(code)) && has_bit(second_bit(code))); }

// As of this epoch.
static uint32_t as_of_now(uint32_t count) {
    uint32_t now = __atomic_load_n(&epoch, __ATOMIC_RELAXED) << FENCED_BITS & EPOCH_MASK;
    return (count & EPOCH_MASK) == now ? count : (count & (SEEN | EVER_FENCED)) | now;
}
static uint32_t count_of(uint32_t context) {
    return as_of_now(__atomic_load_n(&counts[context % ZG_DEPOT_PLACES], __ATOMIC_RELAXED));
}
// Adds these flags and so many fenced blocks; what the count was before. No flag is lost or set twice, whoever else does so.
static uint32_t add_count(uint32_t context, uint32_t flags, uint32_t fenced) {
    uint32_t *place = &counts[context % ZG_DEPOT_PLACES], stored = __atomic_load_n(place, __ATOMIC_RELAXED), count;
    do {
        count = as_of_now(stored);
    } while (!__atomic_compare_exchange_n(place, &stored,
                                          (count | flags) + ((count & FENCED_MOST) < FENCED_MOST ? fenced : 0), true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return count;
}

bool zg_choice_init(void) {
    counts = zg_os_map_for_good(ZG_DEPOT_PLACES * sizeof *counts);
    return counts != NULL;
}

void zg_choice_begin_epoch(void) { __atomic_fetch_add(&epoch, 1, __ATOMIC_RELAXED); }

// Of the blocks of a profile that fences all: the first of a context, and ever fewer of the later ones.
static bool is_private(uint32_t count) { return count < PRIVATE_FIRST || !(count & (count - 1)); }

// Approximate where threads meet.
static bool is_passed(void) {
    uint32_t left = __atomic_load_n(&passes, __ATOMIC_RELAXED);
    if (left) __atomic_store_n(&passes, left - 1, __ATOMIC_RELAXED);
    return left;
}

static uint32_t first_most(bool can_window) { return zg_config.fence_per_context * (can_window ? WINDOWED_MORE : 1); }

// Where not all is fenced private pages are preferred, as long as they leave enough time and memory to others. The first windows of
// each size cost as much, and most processes end before there are more.
static bool is_better_in_window(enum zg_page_use use, uint64_t size) {
    if (zg_window_is_forced()) return true;
    if (zg_page_time_is_early()) return false;
    return !zg_fence_is_affordable() || !zg_page_time_allows(use, true) || !zg_fence_has_room(size, false);
}

enum zg_choice zg_choose(uint32_t context, uint64_t size, bool later, uint64_t caller) {
    bool can_window = caller && zg_window_may_be();
    uint32_t count = count_of(context), fenced = count & FENCED_MOST;
    if (!(count & SEEN) && !(add_count(context, SEEN, 0) & SEEN)) zg_stats_add(zg_counter_contexts, 1);
    if (zg_protection_is_stopped()) return zg_coverage_declined(zg_coverage_reason_no_faults), zg_choice_none;
    bool is_all = zg_config.fence_per_context == ZG_FENCE_ALL || zg_bypass_mode == zg_bypass_sample;
    // There are no windows any more where the program has limited its address space, and private pages for all would take too long.
    if (is_all && zg_bypass_may_fail && !can_window && !is_private(fenced)) return zg_choice_none;
    if (is_all)
        return can_window &&
                       (zg_window_is_forced() || !is_private(fenced) || !zg_fence_is_affordable() ||
                        !zg_fence_has_room(size, false)) &&
                       zg_window_is_for(caller)
                   ? zg_choice_window
                   : zg_choice_pages;
    if (!zg_config.fence_per_context) return zg_choice_none;
    enum zg_page_use use = fenced ? zg_page_next : zg_page_first;
    // A share that falls with how many of the context's blocks have been fenced, and with what this one would cost.
    uint64_t share = zg_min(size / ZG_PAGE_BYTES, SHARE_PAGES_MOST) + 1;
    uint32_t most = first_most(can_window);
    if (fenced >= most) {
        if (!later) return zg_choice_none;
        use = can_window ? zg_page_next : zg_page_later;
        share *= can_window ? (fenced - most) / WINDOWED_LATER + 1 : fenced - most + 2;
    }
    if (fenced && share > 1 && zg_random(&random_state) % share) return zg_choice_none;
    if (fenced && is_passed()) return zg_stats_add(zg_counter_fence_declined, 1), zg_choice_none;
    if (use == zg_page_first && !zg_page_time_allows(use, false) && is_new_code(code_of(context)))
        use = zg_page_new_code;
    bool may = zg_page_time_allows(use, false);
    if (may && can_window && is_better_in_window(use, size) && zg_window_is_for(caller)) return zg_choice_window;
    if (may && zg_fence_has_room(size, use <= zg_page_first)) return zg_choice_pages;
    zg_stats_add(zg_counter_fence_declined, 1);
    if (!may && fenced) __atomic_store_n(&passes, PASSED, __ATOMIC_RELAXED);
    if (!may && !later) zg_coverage_declined(zg_coverage_reason_fence_overhead);
    return zg_choice_none;
}

void zg_choice_note_tagged(uint32_t context) {
    uint32_t count = count_of(context);
    if (count & EVER_FENCED) return;
    count = add_count(context, SEEN | EVER_FENCED, 0);
    if (!(count & SEEN)) zg_stats_add(zg_counter_contexts, 1);
    if (!(count & EVER_FENCED)) zg_stats_add(zg_counter_contexts_fenced, 1);
}

void zg_choice_note(uint32_t context, uint64_t caller) {
    uint32_t count = add_count(context, EVER_FENCED, 1), fenced = count & FENCED_MOST;
    if (!(count & EVER_FENCED)) {
        zg_stats_add(zg_counter_contexts_fenced, 1);
        uint64_t code = code_of(context);
        set_bit(first_bit(code));
        set_bit(second_bit(code));
    }
    if (fenced + 1 == first_most(caller && zg_window_may_be())) {
        zg_depot_mark_context_done(context);
        zg_coverage_declined(zg_coverage_reason_fence_per_context);
    }
}
