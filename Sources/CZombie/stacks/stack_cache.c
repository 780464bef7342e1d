// Cache of known stacks: 4-way set associative, with the last hit first. Hot path; no lock.

#include "stacks/stack_cache.h"

#include <stddef.h>

#include "settings/config.h"

uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key) {
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    uint64_t *keys = set->keys;
    uint32_t *places = set->places;
    for (int way = 0; way < ZG_CACHE_WAYS; way++) {
        if (keys[way] != key) continue;
        const struct zg_cached_stack *entry = zg_stack_cache_entry(cache, places[way]);
        if (!zg_cached_stack_is_unchanged(entry, caller)) continue;
        set->resistance = ZG_CACHE_RESISTANCE;
        // Move the entry to way 0: of all entries of a caller, which differ in outer frames, the last hit is the most
        // likely to be hit next.
        uint32_t place = places[way];
        for (int i = way; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
        keys[0] = key, places[0] = place;
        return entry->stack;
    }
    cache->missed = key;
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

#define NO_KEY 1 // marks an unused way; a real key is as unlikely to have this value as any other

static void put_pair(struct zg_cached_pairs *pairs, uint32_t at, uint64_t low, uint64_t high) {
    struct zg_cached_pairs *group = &pairs[at / ZG_CACHE_GROUP];
    group->places[at % ZG_CACHE_GROUP] = (uint16_t)place_of(low);
    group->words[2 * (at % ZG_CACHE_GROUP)] = (uint32_t)low;
    group->words[2 * (at % ZG_CACHE_GROUP) + 1] = (uint32_t)high;
}

static void put_word(struct zg_cached_words *words, uint32_t at, uint64_t word) {
    struct zg_cached_words *group = &words[at / ZG_CACHE_GROUP];
    group->places[at % ZG_CACHE_GROUP] = (uint16_t)place_of(word);
    group->words[at % ZG_CACHE_GROUP] = (uint32_t)word;
}

// Stores the walk's words in the entry: first pairs of adjacent words, then single words. Returns false if the entry
// has no room for them. Moves the single words to the front of the walk's array.
static bool fill(struct zg_cached_stack *entry, uint32_t bytes, struct zg_walk *walk) {
    struct zg_cached_pairs *pairs = (void *)entry->groups;
    uint32_t most = bytes - (uint32_t)offsetof(struct zg_cached_stack, groups), paired = 0, single = 0;
    uint32_t paired_most = most / (uint32_t)sizeof *pairs * ZG_CACHE_GROUP;
    uint64_t low = 0, high = 0;
    for (uint32_t i = 0; i < walk->word_count; i++) {
        // In the words of a walk, a saved frame pointer and the return address above it are adjacent, in either order.
        uint64_t one = walk->words[i], other = i + 1 < walk->word_count ? walk->words[i + 1] : one;
        uint64_t distance = place_of(other) - place_of(one);
        if (distance + 1 > 2 || !distance) {
            walk->words[single++] = one;
            continue;
        }
        if (paired == paired_most) return false;
        low = distance == 1 ? one : other, high = distance == 1 ? other : one;
        put_pair(pairs, paired++, low, high);
        i++;
    }
    for (; paired % ZG_CACHE_GROUP; paired++) put_pair(pairs, paired, low, high);
    entry->pair_groups = (uint8_t)(paired / ZG_CACHE_GROUP);
    struct zg_cached_words *words = (void *)(pairs + entry->pair_groups);
    entry->word_bytes = (uint16_t)((single + ZG_CACHE_GROUP - 1) / ZG_CACHE_GROUP * sizeof *words);
    if (entry->pair_groups * sizeof *pairs + entry->word_bytes > most) return false;
    for (uint32_t i = 0; i < single; i++) put_word(words, i, walk->words[i]);
    for (uint32_t i = single; i % ZG_CACHE_GROUP; i++) put_word(words, i, walk->words[single - 1]);
    return true;
}

// Takes a new entry. A larger stack_depth means longer walks, and so larger and fewer entries. UINT32_MAX if there is
// no room.
static uint32_t take_entry(struct zg_stack_cache *cache, uint32_t bytes) {
    uint32_t place = cache->used;
    if (place + bytes > ZG_CACHE_BYTES) return UINT32_MAX;
    cache->used += bytes;
    return place;
}

void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, struct zg_walk *walk, uint32_t stack) {
    if (!walk->repeatable || !stack) return;
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    uint32_t bytes = zg_config.stack_depth > ZG_CACHE_DEPTH ? ZG_CACHE_ENTRY_MOST : ZG_CACHE_ENTRY_BYTES;
    uint64_t *keys = set->keys;
    uint32_t *places = set->places;
    int last = 0; // way whose entry is replaced
    while (last < ZG_CACHE_WAYS - 1 && keys[last]) last++;
    uint32_t place = keys[last] ? places[last] : take_entry(cache, bytes);
    if (ZG_UNLIKELY(place == UINT32_MAX)) {
        if (!last) return;
        place = places[--last];
    }
    struct zg_cached_stack *entry = zg_stack_cache_entry(cache, place);
    if (ZG_UNLIKELY(!fill(entry, bytes, walk))) {
        keys[last] = NO_KEY, places[last] = place;
        return;
    }
    for (int i = last; i; i--) keys[i] = keys[i - 1], places[i] = places[i - 1];
    keys[0] = key, places[0] = place;
    entry->stack = stack;
    entry->uses_fp = walk->uses_fp;
    entry->fp = caller.fp;
}

void zg_stack_cache_clear(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack, uint32_t bits) {
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    for (int way = 0; way < ZG_CACHE_WAYS; way++) {
        if (set->keys[way] != key) continue;
        // Other stacks have the same key if only outer frames differ.
        struct zg_cached_stack *entry = zg_stack_cache_entry(cache, set->places[way]);
        if ((entry->stack & ~bits) == stack) entry->stack = stack;
    }
}

// Advances by 16 times an odd number: no value repeats, and the bits that select sets stay spread like those of stack
// pointers.
void zg_stack_cache_forget(struct zg_stack_cache *cache) { cache->life += UINT64_C(0xd6e8feb86659fd90); }
