// Known stacks by where they begin: a capture that repeats costs a few comparisons instead of a walk.
//
// A walk depends on nothing but the caller's pc, stack pointer and (where a frame counts from it) frame pointer, and on
// the words that it reads: return addresses, and saved frame pointers that a later frame counts from. An entry keeps just
// these. Where all of them are unchanged the walk would go the same way, so its stack id is the answer. 32 bits of each word
// are kept, since what an entry takes of the processor's cache is what a hit costs: return addresses that agree in them lie a
// multiple of 4 GiB apart, and a stack is smaller.
// Hot path; one cache for each thread, no lock.

#ifndef ZG_STACK_CACHE_H
#define ZG_STACK_CACHE_H

#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_CACHE_WAYS = 4, ZG_CACHE_SETS = 256 };

// Words are compared in groups of four pairs (two neighbours: where a frame pointer is saved the return address lies above
// it) and then of four single words, the inner frames' first; the last of each kind is repeated to fill its group. Each group has its
// places with it, so that most entries are read from one or two cache lines.
enum { ZG_CACHE_GROUP = 4 };
struct zg_cached_pairs {
    uint16_t places[ZG_CACHE_GROUP];    // distance from the caller's sp / 8
    uint32_t words[2 * ZG_CACHE_GROUP]; // the low half of what is expected there
};
struct zg_cached_words {
    uint16_t places[ZG_CACHE_GROUP];
    uint32_t words[ZG_CACHE_GROUP];
};

// What an entry takes: room for two words a frame down to the depth that is kept by default; with a larger one for ZG_WALK_WORDS.
enum {
    ZG_CACHE_DEPTH = 32,
    ZG_CACHE_ENTRY_BYTES = 384,
    ZG_CACHE_ENTRY_MOST = 704,
    ZG_CACHE_BYTES = ZG_CACHE_SETS * ZG_CACHE_WAYS * ZG_CACHE_ENTRY_BYTES,
};

struct __attribute__((aligned(64))) zg_cached_stack {
    uint32_t stack;      // id in the depot, and the caller's bits
    uint16_t word_bytes; // of the groups of single words
    // Both 0 where no frame counts from a frame pointer:
    uint8_t pair_groups, uses_fp; // the caller's frame pointer takes part
    uint64_t fp;
    uint8_t groups[]; // struct zg_cached_pairs, then struct zg_cached_words
};

struct __attribute__((aligned(64))) zg_cache_set {
    uint64_t keys[ZG_CACHE_WAYS];   // 0: empty
    uint32_t places[ZG_CACHE_WAYS]; // way -> entry: bytes from the first; hits move to way 0
    uint8_t resistance;             // additions that the set still turns down; raised by hits
};

struct zg_stack_cache {
    uint64_t life;       // takes part in the keys: another one makes every entry unknown
    uint64_t missed;     // the key that was looked for last, in vain
    uint32_t used;       // bytes of entries, from the first
    uint32_t seen[1024]; // stacks that were captured lately, by their id
    struct zg_cache_set sets[ZG_CACHE_SETS];
    uint8_t entries[ZG_CACHE_BYTES] __attribute__((aligned(64)));
};

// The stack id, 0 where the stack is not known: which is noted, so that zg_stack_cache_was_looked_for says it once. Callers that have
// looked at the set's first entry themselves come with its key; it is looked at again.
uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key);
ZG_INLINE bool zg_stack_cache_was_looked_for(struct zg_stack_cache *cache, uint64_t key);
// Whether this stack, captured just now without the cache's help, should be added: it was captured not long ago, and the
// entries of its set have not proved more useful lately. Notes it otherwise.
bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack);
// Keeps a walk, unless it cannot be compared later.
void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, const struct zg_walk *walk,
                        uint32_t stack);
// Takes bits out of the ids of the stacks that begin here.
void zg_stack_cache_clear(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t bits);
// For a thread with another stack. The old entries are not found any more, and driven out by new ones.
void zg_stack_cache_forget(struct zg_stack_cache *cache);

// -- inline part --

// A set of which entries are found stays as it is until this many others asked for a place: with more stacks than entries
// each newcomer would otherwise drive out one that is needed again sooner.
enum { ZG_CACHE_RESISTANCE = 8 };

// Of the rules that the walks followed, too: with others every entry is unknown. Whoever finds a key finds a walk of the thread's own
// stack: there is no other kind, so that the words may be read.
ZG_INLINE uint64_t zg_stack_cache_key(const struct zg_stack_cache *cache, struct zg_caller caller) {
    uint64_t life = cache->life + __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED);
    return (caller.pc * UINT64_C(0x9e3779b97f4a7c15)) ^ (caller.sp + life);
}
// By bits in which callers differ and the places of recursive calls do.
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

// The low halves of two neighbouring words and two others.
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
