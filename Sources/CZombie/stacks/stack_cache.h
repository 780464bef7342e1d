// Cache of known stacks, by caller: a repeated capture costs a few comparisons instead of a walk.
//
// A walk depends only on the caller's pc, stack pointer and (if a frame's CFA is computed from it) frame pointer, and
// on the words that it reads: return addresses, and saved frame pointers from which a later CFA is computed. An entry
// holds exactly these words. If all are unchanged, the walk would take the same path, so the entry's stack id is the
// answer. Only the low 32 bits of each word are kept, because a hit loads all of the processor's cache lines that the
// entry occupies. Two return addresses with equal low halves are a multiple of 4 GiB apart, and two frame pointers in
// one stack cannot have equal low halves, because a stack is smaller than 4 GiB. Hot path; one cache per thread, no
// lock.

#ifndef ZG_STACK_CACHE_H
#define ZG_STACK_CACHE_H

#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_CACHE_WAYS = 4, ZG_CACHE_SETS = 256 };

// Words are compared in groups: first groups of four pairs of neighbouring words (a return address is above a saved
// frame pointer), then groups of four single words. Words of inner frames come first, and the last element is repeated
// to fill a group. Each group holds the places of its words, so that most entries are read from one or two cache lines.
enum { ZG_CACHE_GROUP = 4 };
struct zg_cached_pairs {
    uint16_t places[ZG_CACHE_GROUP];    // distance from the caller's sp, divided by 8
    uint32_t words[2 * ZG_CACHE_GROUP]; // low half of the expected word
};
struct zg_cached_words {
    uint16_t places[ZG_CACHE_GROUP];
    uint32_t words[ZG_CACHE_GROUP];
};

// Size of an entry: room for two words per frame at the default stack_depth, or for ZG_WALK_WORDS at a larger one.
enum {
    ZG_CACHE_DEPTH = 32,
    ZG_CACHE_ENTRY_BYTES = 384,
    ZG_CACHE_ENTRY_MOST = 704,
    ZG_CACHE_BYTES = ZG_CACHE_SETS * ZG_CACHE_WAYS * ZG_CACHE_ENTRY_BYTES,
};

struct __attribute__((aligned(64))) zg_cached_stack {
    uint32_t stack;      // depot id, with flag bits of the caller of zg_stack_cache_add
    uint16_t word_bytes; // size of the groups of single words
    // pair_groups and uses_fp are 0 if no CFA is computed from a frame pointer.
    uint8_t pair_groups, uses_fp; // uses_fp: compare the caller's frame pointer
    uint64_t fp;
    uint8_t groups[]; // struct zg_cached_pairs, then struct zg_cached_words
};

struct __attribute__((aligned(64))) zg_cache_set {
    uint64_t keys[ZG_CACHE_WAYS];   // 0: empty
    uint32_t places[ZG_CACHE_WAYS]; // offset of each way's entry; hits move to way 0
    uint8_t resistance;             // additions that the set still rejects; reset by hits
};

struct zg_stack_cache {
    uint64_t life;       // part of every key: a new value invalidates all entries
    uint64_t missed;     // key of the last miss
    uint32_t used;       // bytes of `entries` in use
    uint32_t seen[1024]; // recently captured stacks, by id
    struct zg_cache_set sets[ZG_CACHE_SETS];
    uint8_t entries[ZG_CACHE_BYTES] __attribute__((aligned(64)));
};

// Returns the stack id. 0 if the stack is not in the cache; records the miss for zg_stack_cache_was_looked_for. `key`:
// zg_stack_cache_key of the caller. Inline fast paths compare the set's first entry before the call; it is compared
// again here.
uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key);
// Whether the last zg_stack_cache_find missed this key. True only at the first call after the miss.
ZG_INLINE bool zg_stack_cache_was_looked_for(struct zg_stack_cache *cache, uint64_t key);
// Whether to add a stack that was just captured without the cache: yes if it was captured recently, and the set has
// room or had no recent hits. Otherwise notes the capture.
bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack);
// Adds a walk if it is repeatable and its words fit in an entry. Reorders the walk's words.
void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, struct zg_walk *walk, uint32_t stack);
// Clears these bits in the entries of one of the caller's stacks. `stack`: its id without the bits.
void zg_stack_cache_clear(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack, uint32_t bits);
// Invalidates all entries, for example if another thread takes over the cache. New entries replace them gradually.
void zg_stack_cache_forget(struct zg_stack_cache *cache);

// -- inline part --

// After a hit a set rejects this many new stacks. If there are more stacks than entries, each new stack would otherwise
// evict one that is needed sooner.
enum { ZG_CACHE_RESISTANCE = 8 };

// The key contains the epoch of the unwind rules, so a change of the rules invalidates every entry. All cached walks
// are of the thread's own stack. So if the key matches, the words at the entry's places are readable.
ZG_INLINE uint64_t zg_stack_cache_key(const struct zg_stack_cache *cache, struct zg_caller caller) {
    uint64_t life = cache->life + __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED);
    return (caller.pc * UINT64_C(0x9e3779b97f4a7c15)) ^ (caller.sp + life);
}
// Selects a set by bits that differ between callers, and between the stack pointers of recursive calls.
ZG_INLINE struct zg_cache_set *zg_stack_cache_set(struct zg_stack_cache *cache, uint64_t key) {
    return (struct zg_cache_set *)((char *)cache->sets + (key << 2 & (ZG_CACHE_SETS - 1) * sizeof cache->sets[0]));
}
_Static_assert(sizeof(struct zg_cache_set) == 64,
               "zg_stack_cache_set shifts by the difference from a stack's alignment");
ZG_INLINE struct zg_cached_stack *zg_stack_cache_entry(struct zg_stack_cache *cache, uint32_t place) {
    return (struct zg_cached_stack *)(void *)(cache->entries + place);
}

ZG_INLINE bool zg_stack_cache_was_looked_for(struct zg_stack_cache *cache, uint64_t key) {
    bool was = cache->missed == key;
    cache->missed = 0;
    return was;
}

typedef uint32_t zg_half_words __attribute__((vector_size(16), aligned(4), may_alias));

// Returns the low halves of two pairs of neighbouring words.
ZG_INLINE zg_half_words zg_low_halves(uint64_t sp, const uint16_t *places) {
    zg_half_words one = *(const zg_half_words *)(sp + places[0] * UINT64_C(8));
    zg_half_words other = *(const zg_half_words *)(sp + places[1] * UINT64_C(8));
    return __builtin_shufflevector(one, other, 0, 2, 4, 6);
}

ZG_INLINE bool zg_cached_pairs_are_unchanged(const struct zg_cached_stack *entry, uint64_t sp, uint64_t fp) {
    if (entry->uses_fp && entry->fp != fp) return false;
    const struct zg_cached_pairs *pair = (const void *)entry->groups;
    for (uint32_t left = entry->pair_groups; left; left--, pair++) {
        zg_half_words changed =
            (zg_low_halves(sp, pair->places) ^ *(const zg_half_words *)pair->words) |
            (zg_low_halves(sp, pair->places + 2) ^ *(const zg_half_words *)(pair->words + ZG_CACHE_GROUP));
        typedef uint64_t halves __attribute__((vector_size(16)));
        if (((halves)changed)[0] | ((halves)changed)[1]) return false;
    }
    return true;
}

ZG_INLINE bool zg_cached_stack_is_unchanged(const struct zg_cached_stack *entry, struct zg_caller caller) {
    const uint8_t *at = entry->groups, *end = at + entry->word_bytes;
    uint16_t pairs;
    __builtin_memcpy(&pairs, &entry->pair_groups, sizeof pairs);
    if (pairs) {
        if (!zg_cached_pairs_are_unchanged(entry, caller.sp, caller.fp)) return false;
        at += entry->pair_groups * sizeof(struct zg_cached_pairs);
        end += entry->pair_groups * sizeof(struct zg_cached_pairs);
    }
    for (; at != end; at += sizeof(struct zg_cached_words)) {
        const struct zg_cached_words *group = (const void *)at;
        for (int i = 0; i < ZG_CACHE_GROUP; i++)
            if (*(const uint32_t *)(caller.sp + group->places[i] * UINT64_C(8)) != group->words[i]) return false;
    }
    return true;
}

#endif
