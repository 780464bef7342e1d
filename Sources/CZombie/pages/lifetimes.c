// A small saturating counter for each allocation context.

#include "pages/lifetimes.h"

#include "platform/os.h"
#include "stacks/depot.h"

enum {
    LASTED = 2, // a block that lasted counts so much, one that died early 1: long from a third on
    LONG = 8,
    MOST = 16
};

static uint8_t *scores; // ZG_DEPOT_PLACES of them

bool zg_lifetime_init(void) {
    scores = zg_os_map_for_good(ZG_DEPOT_PLACES * sizeof *scores);
    return scores != NULL;
}

static uint8_t *score_of(uint32_t context) { return &scores[context % ZG_DEPOT_PLACES]; }

void zg_lifetime_lasted(uint32_t context) {
    uint8_t score = __atomic_load_n(score_of(context), __ATOMIC_RELAXED);
    if (score + LASTED <= MOST) __atomic_store_n(score_of(context), (uint8_t)(score + LASTED), __ATOMIC_RELAXED);
}

void zg_lifetime_ended(uint32_t context) {
    uint8_t score = __atomic_load_n(score_of(context), __ATOMIC_RELAXED);
    if (score) __atomic_store_n(score_of(context), (uint8_t)(score - 1), __ATOMIC_RELAXED);
}

bool zg_lifetime_is_long(uint32_t context) { return __atomic_load_n(score_of(context), __ATOMIC_RELAXED) >= LONG; }
