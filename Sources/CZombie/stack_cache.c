// The cache of known stacks: 4-way, the last hit first. Hot path; no lock.

#include "stack_cache.h"

// A set of which entries are found stays as it is until this many others asked for a place: with more stacks than entries
// each newcomer would otherwise drive out one that is needed again sooner.
enum { RESISTANCE = 8 };

#define LOW_48 ((UINT64_C(1) << 48) - 1)

ZG_INLINE uint64_t key_of(const struct zg_stack_cache *cache, struct zg_caller caller) {
    return ((caller.pc * UINT64_C(0x9e3779b97f4a7c15)) ^ caller.sp ^ cache->life) * UINT64_C(0xd6e8feb86659fd93) | 1;
}
ZG_INLINE uint64_t set_of(uint64_t key) { return key >> 56; }
_Static_assert(ZG_CACHE_SETS == 256, "set_of takes eight bits");

ZG_INLINE bool is_unchanged(const struct zg_cached_stack *entry, struct zg_caller caller) {
    uint64_t changed = entry->uses_fp ? entry->fp ^ caller.fp : 0;
    for (uint32_t i = 0; i < entry->word_count; i++) {
        uint64_t word = entry->words[i], now = *(const uint64_t *)(caller.sp + (word >> 48) * 8);
        changed |= (now ^ word) & LOW_48;
    }
    return !changed;
}

uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller) {
    uint32_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(cache->epoch != epoch)) {
        cache->epoch = epoch;
        zg_stack_cache_forget(cache);
    }
    uint64_t key = key_of(cache, caller), set = set_of(key);
    uint64_t *keys = cache->keys[set];
    uint8_t *places = cache->places[set];
    for (int way = 0; way < ZG_CACHE_WAYS; way++) {
        if (keys[way] != key) continue;
        const struct zg_cached_stack *entry = &cache->entries[set][places[way]];
        if (!is_unchanged(entry, caller)) continue;
        cache->resistance[set] = RESISTANCE;
        if (way) { // the same caller with another past: the last one seen is the likeliest next
            uint8_t place = places[way];
            for (int i = way; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
            keys[0] = key, places[0] = place;
        }
        return entry->stack;
    }
    return 0;
}

bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack) {
    uint32_t *seen = &cache->seen[stack % ZG_ARRAY_COUNT(cache->seen)];
    uint64_t set = set_of(key_of(cache, caller));
    if (*seen != stack) {
        *seen = stack;
        return false;
    }
    if (!cache->keys[set][ZG_CACHE_WAYS - 1] || !cache->resistance[set]) return true;
    cache->resistance[set]--;
    return false;
}

void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, const struct zg_walk *walk,
                        uint32_t stack) {
    if (!walk->repeatable || !stack) return;
    uint64_t key = key_of(cache, caller), set = set_of(key);
    uint64_t *keys = cache->keys[set];
    uint8_t *places = cache->places[set];
    uint8_t place = places[ZG_CACHE_WAYS - 1];
    if (!keys[ZG_CACHE_WAYS - 1]) { // the set is not full yet: the first place that no key uses
        place = 0;
        while (keys[place]) place++;
    }
    for (int i = ZG_CACHE_WAYS - 1; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
    keys[0] = key, places[0] = place;
    struct zg_cached_stack *entry = &cache->entries[set][place];
    entry->stack = stack;
    entry->uses_fp = walk->uses_fp;
    entry->fp = caller.fp;
    entry->word_count = (uint16_t)walk->word_count;
    for (uint32_t i = 0; i < walk->word_count; i++) entry->words[i] = walk->words[i];
}

void zg_stack_cache_forget(struct zg_stack_cache *cache) { cache->life += UINT64_C(1) << 48; }
