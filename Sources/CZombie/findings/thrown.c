// A set-associative table. Each entry is written by the thread that claims it; an entry being written is skipped. Any
// context; no lock.

#include "findings/thrown.h"

#include "blocks/lookup.h"

enum { SETS = 256, WAYS = 4, MULTIPLIER_SHIFT = 56, TAKEN = 1 };

struct place {
    uint64_t error; // 0: free; TAKEN: being written
    uint32_t stack;
    uint32_t made; // allocation stack of the error, to recognize another error at the same address; 0 if unknown
};
static struct set {
    struct place places[WAYS];
    uint32_t next_way;
} sets[SETS];

static struct set *set_of(uint64_t error) { return &sets[error * UINT64_C(0x9fb21c651e98df25) >> MULTIPLIER_SHIFT]; }

static uint32_t stack_that_made(uint64_t error) {
    struct zg_block_view view;
    return zg_lookup_block(error, &view) && view.state == zg_state_live ? view.alloc_stack : 0;
}

static bool take(struct place *place, uint64_t known) {
    return known != TAKEN &&
           __atomic_compare_exchange_n(&place->error, &known, TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// Returns the error's entry in its set. If there is none, returns the entry to replace: each entry of the set in turn.
static struct place *place_for(struct set *set, uint64_t error) {
    for (int i = 0; i < WAYS; i++)
        if (zg_load(&set->places[i].error) == error) return &set->places[i];
    return &set->places[__atomic_fetch_add(&set->next_way, 1, __ATOMIC_RELAXED) % WAYS];
}

void zg_thrown_note(uint64_t error, uint32_t stack) {
    if (!stack || error <= TAKEN) return;
    struct place *place = place_for(set_of(error), error);
    uint64_t known = zg_load(&place->error);
    uint32_t made = stack_that_made(error);
    if (!take(place, known)) return;
    if (known != error || !made || place->made != made) place->stack = stack;
    place->made = made;
    __atomic_store_n(&place->error, error, __ATOMIC_RELEASE);
}

uint32_t zg_thrown_find(uint64_t error) {
    const struct set *set = set_of(error);
    for (int i = 0; i < WAYS && error > TAKEN; i++) {
        const struct place *place = &set->places[i];
        if (__atomic_load_n(&place->error, __ATOMIC_ACQUIRE) != error) continue;
        uint32_t stack = __atomic_load_n(&place->stack, __ATOMIC_RELAXED);
        uint32_t made = __atomic_load_n(&place->made, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        bool is_same = zg_load(&place->error) == error && made == stack_that_made(error);
        return is_same ? stack : 0;
    }
    return 0;
}
