// The cache of known stacks: 4-way, the last hit first. Hot path; no lock.

#include "stacks/stack_cache.h"

uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key) {
    uint32_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED);
    if (ZG_UNLIKELY(cache->epoch != epoch)) {
        cache->epoch = epoch;
        zg_stack_cache_forget(cache);
        return 0;
    }
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    uint64_t *keys = set->keys;
    uint16_t *places = set->places;
    for (int way = 0; way < ZG_CACHE_WAYS; way++) {
        if (keys[way] != key) continue;
        const struct zg_cached_stack *entry = &cache->entries[places[way]];
        if (!zg_cached_stack_is_unchanged(entry, caller)) continue;
        set->resistance = ZG_CACHE_RESISTANCE;
        // The same caller with another past: the last one seen is the likeliest next.
        uint16_t place = places[way];
        for (int i = way; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
        keys[0] = key, places[0] = place;
        return entry->stack;
    }
    return 0;
}

bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack) {
    uint32_t *seen = &cache->seen[stack % ZG_ARRAY_COUNT(cache->seen)];
    struct zg_cache_set *set = zg_stack_cache_set(cache, zg_stack_cache_key(cache, caller));
    if (*seen != stack) {
        *seen = stack;
        return false;
    }
    if (!set->keys[ZG_CACHE_WAYS - 1] || !set->resistance) return true;
    set->resistance--;
    return false;
}

static uint64_t place_of(uint64_t word) { return word >> 48; }

// The words in the entry's order.
static void fill(struct zg_cached_stack *entry, const struct zg_walk *walk) {
    uint32_t places = 0, words = 0;
    uint64_t paired[(ZG_WALK_WORDS + 63) / 64] = {0};
    for (uint32_t i = 0; i < walk->word_count; i++) {
        // A saved frame pointer and the return address above it come one after the other, in either order.
        uint64_t one = walk->words[i], other = i + 1 < walk->word_count ? walk->words[i + 1] : one;
        if (place_of(one) > place_of(other)) one = other, other = walk->words[i];
        if (place_of(one) + 1 != place_of(other)) continue;
        paired[i / 64] |= UINT64_C(1) << i % 64, i++, paired[i / 64] |= UINT64_C(1) << i % 64;
        entry->places[places++] = (uint16_t)place_of(one);
        entry->words[words++] = (uint32_t)one, entry->words[words++] = (uint32_t)other;
    }
    for (; places % ZG_CACHE_GROUP; places++, words += 2) {
        entry->places[places] = entry->places[places - 1];
        entry->words[words] = entry->words[words - 2], entry->words[words + 1] = entry->words[words - 1];
    }
    entry->pair_groups = (uint8_t)(places / ZG_CACHE_GROUP);
    for (uint32_t i = 0; i < walk->word_count; i++) {
        if (paired[i / 64] >> i % 64 & 1) continue;
        entry->places[places++] = (uint16_t)place_of(walk->words[i]);
        entry->words[words++] = (uint32_t)walk->words[i];
    }
    for (; places % ZG_CACHE_GROUP; places++, words++) {
        entry->places[places] = entry->places[places - 1];
        entry->words[words] = entry->words[words - 1];
    }
    entry->word_groups = (uint8_t)(places / ZG_CACHE_GROUP - entry->pair_groups);
}

void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, const struct zg_walk *walk,
                        uint32_t stack) {
    if (!walk->repeatable || !stack) return;
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    uint64_t *keys = set->keys;
    uint16_t *places = set->places;
    uint16_t place = keys[ZG_CACHE_WAYS - 1] ? places[ZG_CACHE_WAYS - 1] : (uint16_t)cache->used++;
    for (int i = ZG_CACHE_WAYS - 1; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
    keys[0] = key, places[0] = place;
    struct zg_cached_stack *entry = &cache->entries[place];
    entry->stack = stack;
    entry->uses_fp = walk->uses_fp;
    entry->fp = caller.fp;
    fill(entry, walk);
}

void zg_stack_cache_clear(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t bits) {
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    for (int way = 0; way < ZG_CACHE_WAYS; way++)
        if (set->keys[way] == key) cache->entries[set->places[way]].stack &= ~bits;
}

void zg_stack_cache_forget(struct zg_stack_cache *cache) { cache->life += UINT64_C(1) << 48; }
