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
// it) and then of four single words, the inner frames' first; the last of each kind is repeated to fill its group.
enum { ZG_CACHE_GROUP = 4, ZG_CACHE_WORDS = ZG_WALK_WORDS + 3 * ZG_CACHE_GROUP };

struct __attribute__((aligned(64))) zg_cached_stack {
    uint32_t stack; // id in the depot, and the caller's bits
    uint8_t pair_groups, word_groups;
    bool uses_fp; // the caller's frame pointer takes part
    uint64_t fp;
    uint16_t places[ZG_CACHE_WORDS]; // of pairs, then of single words: distance from the caller's sp / 8
    uint32_t words[ZG_CACHE_WORDS];  // the low half of what is expected there
};

struct __attribute__((aligned(64))) zg_cache_set {
    uint64_t keys[ZG_CACHE_WAYS];   // 0: empty
    uint16_t places[ZG_CACHE_WAYS]; // way -> entry; hits move to way 0
    uint8_t resistance;             // additions that the set still turns down; raised by hits
};

struct zg_stack_cache {
    uint32_t epoch;      // of the unwind rules that the entries were made with
    uint32_t used;       // entries, from the first
    uint64_t life;       // takes part in the keys: another one makes every entry unknown
    uint32_t seen[1024]; // stacks that were captured lately, by their id
    struct zg_cache_set sets[ZG_CACHE_SETS];
    struct zg_cached_stack entries[ZG_CACHE_SETS * ZG_CACHE_WAYS];
};

// The stack id, 0 where the stack is not known. Callers that have looked at the set's first entry themselves come with its
// key; it is looked at again.
uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key);
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

ZG_INLINE uint64_t zg_stack_cache_key(const struct zg_stack_cache *cache, struct zg_caller caller) {
    return ((caller.pc * UINT64_C(0x9e3779b97f4a7c15)) ^ caller.sp ^ cache->life) * UINT64_C(0xd6e8feb86659fd93) | 1;
}
ZG_INLINE struct zg_cache_set *zg_stack_cache_set(struct zg_stack_cache *cache, uint64_t key) {
    return &cache->sets[key >> 56];
}
_Static_assert(ZG_CACHE_SETS == 256, "zg_stack_cache_set takes eight bits");

typedef uint32_t zg_half_words __attribute__((vector_size(16), aligned(4), may_alias));

// The low halves of two neighbouring words and two others.
ZG_INLINE zg_half_words zg_low_halves(uint64_t sp, const uint16_t *places) {
    zg_half_words one = *(const zg_half_words *)(sp + places[0] * UINT64_C(8));
    zg_half_words other = *(const zg_half_words *)(sp + places[1] * UINT64_C(8));
    return __builtin_shufflevector(one, other, 0, 2, 4, 6);
}

ZG_INLINE bool zg_cached_stack_is_unchanged(const struct zg_cached_stack *entry, struct zg_caller caller) {
    const uint32_t *word = entry->words;
    const uint16_t *place = entry->places, *end = place + entry->pair_groups * ZG_CACHE_GROUP;
    if (entry->uses_fp && entry->fp != caller.fp) return false;
    for (; place < end; place += ZG_CACHE_GROUP, word += 2 * ZG_CACHE_GROUP) {
        zg_half_words changed = (zg_low_halves(caller.sp, place) ^ *(const zg_half_words *)word) |
                                (zg_low_halves(caller.sp, place + 2) ^ *(const zg_half_words *)(word + 4));
        typedef uint64_t halves __attribute__((vector_size(16)));
        if (((halves)changed)[0] | ((halves)changed)[1]) return false;
    }
    for (end = place + entry->word_groups * ZG_CACHE_GROUP; place < end;
         place += ZG_CACHE_GROUP, word += ZG_CACHE_GROUP) {
        uint32_t changed = 0;
        for (int i = 0; i < ZG_CACHE_GROUP; i++)
            changed |= word[i] ^ *(const uint32_t *)(caller.sp + place[i] * UINT64_C(8));
        if (changed) return false;
    }
    return true;
}

#endif
