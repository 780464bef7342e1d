// The choice of blocks that get pages of their own. Slow path; no lock: counts are approximate where threads meet.

#include "pages/choice.h"

#include "pages/page_time.h"
#include "pages/protect.h"
#include "settings/config.h"
#include "settings/passing.h"
#include "settings/stats.h"
#include "stacks/depot.h"

enum {
    CONTEXTS = 1 << 21,
    SEEN = 0x8000, // of a context's count: it is counted in the statistics
};

// Blocks fenced so far, by context, whose numbers are dense; untouched pages cost nothing. Contexts beyond these many share
// their counts.
static uint16_t counts[CONTEXTS];
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static uint16_t *count_of(uint32_t context) { return &counts[context % CONTEXTS]; }

enum zg_choice zg_choose(uint32_t context, bool later) {
    uint16_t *count = count_of(context);
    uint32_t seen = __atomic_load_n(count, __ATOMIC_RELAXED), fenced = seen & ~(uint32_t)SEEN;
    if (!(seen & SEEN)) {
        __atomic_fetch_or(count, SEEN, __ATOMIC_RELAXED);
        zg_stats_add(zg_counter_contexts, 1);
    }
    if (zg_protection_is_stopped()) return zg_choice_none;
    if (zg_config.fence_per_context == ZG_FENCE_ALL || zg_passing == zg_passing_sample) return zg_choice_pages;
    if (!zg_config.fence_per_context) return zg_choice_none;
    if (!later && fenced >= zg_config.fence_per_context) return zg_choice_none;
    if (later) {
        // A share that falls with the square of how many of the context's blocks have been fenced.
        uint64_t more = fenced < zg_config.fence_per_context ? 1 : fenced - zg_config.fence_per_context + 2;
        if (zg_random(&random_state) % (more * more)) return zg_choice_none;
    }
    if (zg_page_time_allows(fenced == 0)) return zg_choice_pages;
    zg_stats_add(zg_counter_fence_declined, 1);
    return zg_choice_none;
}

void zg_choice_note(uint32_t context) {
    uint16_t *count = count_of(context);
    uint32_t fenced = __atomic_load_n(count, __ATOMIC_RELAXED) & ~(uint32_t)SEEN;
    if (fenced < SEEN - 1) __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    if (!fenced) zg_stats_add(zg_counter_contexts_fenced, 1);
    if (fenced + 1 == zg_config.fence_per_context) zg_depot_settle(context);
}
