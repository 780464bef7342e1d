// The table of pairs. Linear probing in a table that is at most half full; it begins with one page and doubles. Readers
// take no lock: a reader that still uses an old table, which is emptied, finds nothing and looks again under the lock.

#include "stacks/pairs.h"

#include "platform/os.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "stacks/pair_log.h"

// An entry: both stack ids, the fork depth of the process that added the pair, a bit that is set in each entry, and the
// number of guarded frees up to ZG_PAIR_RARE_FREES.
enum {
    ID_BITS = 26,
    COUNT_BITS = 4,
    ENTRY_USED = 1 << COUNT_BITS,
    DEPTH_SHIFT = COUNT_BITS + 1,
    KEY_SHIFT = 64 - 2 * ID_BITS,
    DEPTH_MOST = (1 << (KEY_SHIFT - DEPTH_SHIFT)) - 1
};
_Static_assert(ZG_DEPOT_CONTEXT_DONE == 1 << ID_BITS, "ids of stacks have this many bits");
_Static_assert(ZG_PAIR_RARE_FREES < 1 << COUNT_BITS, "the count fits");

// Beyond 2^20 pairs, which take 16 MiB, every free of an unknown pair counts as a pair of its own that was not watched:
// coverage is then reported too low, never too high.
enum { FIRST_TABLE_BITS = 9, LAST_TABLE_BITS = 21 };
struct table {
    uint64_t *entries;
    uint32_t bits; // logarithm of the number of entries
};
static struct table tables[LAST_TABLE_BITS + 1 - FIRST_TABLE_BITS];
static struct table *newest; // NULL before the first pair
static uint64_t pair_count;
// Number of forks between the program's start and this process; DEPTH_MOST: that many or more.
static uint64_t fork_depth;

static uint64_t key_of(uint64_t pair) {
    return ((pair >> 32 & (ZG_DEPOT_CONTEXT_DONE - 1)) << ID_BITS | (pair & (ZG_DEPOT_CONTEXT_DONE - 1))) << KEY_SHIFT;
}

static uint64_t *entry_of(const struct table *table, uint64_t key) {
    uint64_t mask = (UINT64_C(1) << table->bits) - 1;
    for (uint64_t i = key * UINT64_C(0x9fb21c651e98df25) >> (64 - table->bits);; i = (i + 1) & mask) {
        uint64_t entry = __atomic_load_n(&table->entries[i], __ATOMIC_RELAXED);
        if (!entry || entry >> KEY_SHIFT == key >> KEY_SHIFT) return &table->entries[i];
    }
}

// Returns the pair's entry, 0 if it is unknown. Without the lock, a known pair may seem unknown.
static uint64_t find(uint64_t key) {
    const struct table *table = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
    return table ? __atomic_load_n(entry_of(table, key), __ATOMIC_RELAXED) : 0;
}

// Whether this process counted the pair. The run adds up the counts of all processes: if each child of a fork counted a
// pair as watched that only their parent has counted as seen, the surplus would hide pairs that were not watched.
static bool is_own(uint64_t entry) {
    return fork_depth < DEPTH_MOST && (entry >> DEPTH_SHIFT & DEPTH_MOST) == fork_depth;
}

// Makes room for one more pair. False if the table has its full size, or if the kernel refuses memory. Under the lock.
static bool grow(void) {
    struct table *table = newest ? newest + 1 : tables;
    if (newest && pair_count < UINT64_C(1) << (newest->bits - 1)) return true;
    if (newest && newest->bits == LAST_TABLE_BITS) return false;
    table->bits = newest ? newest->bits + 1 : FIRST_TABLE_BITS;
    table->entries = zg_os_map_table(sizeof *table->entries << table->bits);
    if (!table->entries) return false;
    for (uint64_t i = 0; newest && i < UINT64_C(1) << newest->bits; i++) {
        uint64_t entry = newest->entries[i];
        if (entry) *entry_of(table, entry >> KEY_SHIFT << KEY_SHIFT) = entry;
    }
    struct table *old = newest;
    __atomic_store_n(&newest, table, __ATOMIC_RELEASE);
    if (old) zg_os_discard(old->entries, sizeof *old->entries << old->bits);
    return true;
}

bool zg_pair_add(struct zg_pair_cache *cache, uint32_t alloc_stack, uint32_t free_stack) {
    uint64_t pair = zg_pair(alloc_stack, free_stack), key = key_of(pair);
    bool is_known = find(key) != 0, is_new = false;
    if (!is_known) {
        zg_depot_lock();
        bool has_room = grow();
        uint64_t *entry = newest ? entry_of(newest, key) : NULL;
        is_known = entry && *entry;
        if (!is_known && has_room) {
            __atomic_store_n(entry, key | fork_depth << DEPTH_SHIFT | ENTRY_USED, __ATOMIC_RELAXED);
            pair_count++;
            is_new = true;
        }
        zg_depot_unlock();
        if (!is_known) zg_stats_add(zg_counter_pairs, 1);
        if (!is_known && !is_new) zg_stats_degrade(zg_degradation_pairs_full);
        if (ZG_UNLIKELY(is_new && zg_pair_log_is_on)) zg_pair_log_add(zg_pair_seen, alloc_stack, free_stack);
    }
    if ((is_known || is_new) && free_stack) *zg_pair_place(cache, alloc_stack, free_stack) = pair + 1;
    return is_new;
}

bool zg_pair_is_rare(uint64_t pair) {
    uint64_t entry = find(key_of(pair));
    return entry && (entry & (ENTRY_USED - 1)) < ZG_PAIR_RARE_FREES;
}

void zg_pair_note_guarded(uint64_t pair) {
    uint64_t key = key_of(pair), entry = find(key);
    if ((entry & (ENTRY_USED - 1)) >= ZG_PAIR_RARE_FREES) return;
    zg_depot_lock();
    uint64_t *place = newest ? entry_of(newest, key) : NULL, before = place ? *place : 0;
    if (before && (before & (ENTRY_USED - 1)) < ZG_PAIR_RARE_FREES)
        __atomic_store_n(place, before + 1, __ATOMIC_RELAXED);
    zg_depot_unlock();
    if (!before || before & (ENTRY_USED - 1)) return;
    if (is_own(before)) zg_stats_add(zg_counter_pairs_watched, 1);
    if (ZG_UNLIKELY(zg_pair_log_is_on)) zg_pair_log_add(zg_pair_watched, (uint32_t)(pair >> 32), (uint32_t)pair);
}

void zg_pair_after_fork_in_child(void) {
    if (fork_depth < DEPTH_MOST) fork_depth++;
}
