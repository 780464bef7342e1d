// The cache of known stacks: 4-way, the last hit first. Hot path; no lock.

#include "stack_cache.h"

uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key) {
    uint32_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(cache->epoch != epoch)) {
        cache->epoch = epoch;
        zg_stack_cache_forget(cache);
        return 0;
    }
    uint64_t set = zg_stack_cache_set(key);
    uint64_t *keys = cache->keys[set];
    uint8_t *places = cache->places[set];
    for (int way = 0; way < ZG_CACHE_WAYS; way++) {
        if (keys[way] != key) continue;
        const struct zg_cached_stack *entry = &cache->entries[set][places[way]];
        if (!zg_cached_stack_is_unchanged(entry, caller)) continue;
        cache->resistance[set] = ZG_CACHE_RESISTANCE;
        // The same caller with another past: the last one seen is the likeliest next.
        uint8_t place = places[way];
        for (int i = way; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
        keys[0] = key, places[0] = place;
        return entry->stack;
    }
    return 0;
}

bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack) {
    uint32_t *seen = &cache->seen[stack % ZG_ARRAY_COUNT(cache->seen)];
    uint64_t set = zg_stack_cache_set(zg_stack_cache_key(cache, caller));
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
    uint64_t key = zg_stack_cache_key(cache, caller), set = zg_stack_cache_set(key);
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
