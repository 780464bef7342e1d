// Hash table of the findings written so far, with the first unwritten repeat of each.
// Under the report lock. Allocates nothing but one mapping, at the first repeat.

#include "findings/repeats.h"

#include "platform/os.h"
#include "settings/stats.h"

enum { MOST = 1024, DUE_LEAST = 1000 };

static uint64_t keys[MOST]; // if the table is full, later findings are written each time, which does no harm
static struct repeat {
    uint64_t waiting, written;
    struct zg_finding finding;
} * repeats;
static uint64_t waiting;
static bool are_due;

static uint64_t key_of(const struct zg_finding *finding) {
    uint64_t key = zg_mix((uint64_t)finding->kind + 1);
    if (finding->has_block) key = zg_mix(key ^ finding->block.alloc_stack ^ (uint64_t)finding->block.free_stack << 32);
    for (int i = 0; i < finding->access_count; i++) key = zg_mix(key ^ finding->access_stack[i]);
    return key ? key : 1;
}

static void count(uint64_t at, const struct zg_finding *finding) {
    if (!repeats) repeats = zg_os_map(MOST * sizeof *repeats);
    if (!repeats) {
        zg_stats_degrade(zg_degradation_no_table_memory);
        return;
    }
    struct repeat *repeat = &repeats[at];
    if (!repeat->waiting) repeat->finding = *finding;
    repeat->waiting++;
    zg_store(&waiting, waiting + 1);
    if (repeat->waiting >= zg_max(DUE_LEAST, repeat->written)) __atomic_store_n(&are_due, true, __ATOMIC_RELAXED);
}

bool zg_repeats_is_first(const struct zg_finding *finding) {
    uint64_t key = key_of(finding);
    for (uint64_t i = 0; i < MOST; i++) {
        uint64_t at = (key + i) % MOST, empty = 0;
        if (__atomic_compare_exchange_n(&keys[at], &empty, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return true;
        if (empty != key) continue;
        count(at, finding);
        return false;
    }
    return true;
}

bool zg_repeats_have_due(void) { return __atomic_load_n(&are_due, __ATOMIC_RELAXED); }
bool zg_repeats_have_unwritten(void) { return zg_load(&waiting) != 0; }

const struct zg_finding *zg_repeats_take(uint32_t *cursor, bool all) {
    for (; repeats && *cursor < MOST; ++*cursor) {
        struct repeat *repeat = &repeats[*cursor];
        if (!repeat->waiting || (!all && repeat->waiting < zg_max(DUE_LEAST, repeat->written))) continue;
        repeat->finding.repeats = repeat->waiting;
        repeat->written += repeat->waiting;
        zg_store(&waiting, waiting - repeat->waiting);
        repeat->waiting = 0;
        ++*cursor;
        return &repeat->finding;
    }
    __atomic_store_n(&are_due, false, __ATOMIC_RELAXED);
    return NULL;
}

void zg_repeats_drop(void) {
    if (!repeats) return;
    for (uint32_t i = 0; i < MOST; i++) repeats[i].waiting = 0;
    waiting = 0;
    are_due = false;
}
