// Keeps a small saturating counter for each allocation context: its lifetime record.
// Any context; no lock.

#include "pages/lifetimes.h"

#include "pages/isolation_policy.h"
#include "platform/os.h"
#include "stacks/depot.h"

static uint8_t *scores; // array of ZG_DEPOT_PLACES scores

bool zg_lifetime_init(void) {
    scores = zg_os_map_for_good(ZG_DEPOT_PLACES * sizeof *scores);
    return scores != NULL;
}

static uint8_t *score_of(uint32_t context) { return &scores[context % ZG_DEPOT_PLACES]; }

// Skips the write of an unchanged score, because threads may share its cache line.
static void change_score(uint32_t context, uint8_t before, uint8_t after) {
    if (after != before) __atomic_store_n(score_of(context), after, __ATOMIC_RELAXED);
}

void zg_lifetime_lasted(uint32_t context) {
    uint8_t score = __atomic_load_n(score_of(context), __ATOMIC_RELAXED);
    change_score(context, score, zg_policy_score_lasted(score));
}

void zg_lifetime_ended(uint32_t context) {
    uint8_t score = __atomic_load_n(score_of(context), __ATOMIC_RELAXED);
    change_score(context, score, zg_policy_score_ended(score));
}

bool zg_lifetime_is_long(uint32_t context) {
    return zg_policy_is_long_lived(__atomic_load_n(score_of(context), __ATOMIC_RELAXED));
}
