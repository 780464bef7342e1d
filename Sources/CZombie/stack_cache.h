// Known stacks by where they begin: a capture that repeats costs a few comparisons instead of a walk.
//
// A walk depends on nothing but the caller's pc, stack pointer and (where a frame counts from it) frame pointer, and on
// the words that it reads: return addresses, and saved frame pointers that a later frame counts from. An entry keeps just
// these. Where all of them are unchanged the walk would go the same way, so its stack id is the answer: exact, not likely.
// Hot path; one cache for each thread, no lock.

#ifndef ZG_STACK_CACHE_H
#define ZG_STACK_CACHE_H

#include "base.h"
#include "unwind.h"

enum { ZG_CACHE_WAYS = 4, ZG_CACHE_SETS = 256 };

// Words are compared in groups of four pairs (two neighbours: where a frame pointer is saved the return address lies above
// it) and then of four single words, the inner frames' first; the last of each kind is repeated to fill its group.
enum { ZG_CACHE_GROUP = 4, ZG_CACHE_WORDS = ZG_WALK_WORDS + 3 * ZG_CACHE_GROUP };

struct zg_cached_stack {
    uint32_t stack; // id in the depot, and the caller's bits
    uint8_t pair_groups, word_groups;
    bool uses_fp; // the caller's frame pointer takes part
    uint64_t fp;
    uint16_t places[ZG_CACHE_WORDS]; // of pairs, then of single words: distance from the caller's sp / 8
    uint64_t words[ZG_CACHE_WORDS];  // 48 bits of each: what is expected there
};

struct zg_stack_cache {
    uint32_t epoch; // of the unwind rules that the entries were made with
    uint32_t used;  // entries, from the first
    uint64_t life;  // takes part in the keys: another one makes every entry unknown
    uint32_t seen[1024]; // stacks that were captured lately, by their id
    uint8_t resistance[ZG_CACHE_SETS]; // additions that a set still turns down; raised by hits
    uint64_t keys[ZG_CACHE_SETS][ZG_CACHE_WAYS];
    uint16_t places[ZG_CACHE_SETS][ZG_CACHE_WAYS]; // way -> entry; hits move to way 0
    struct zg_cached_stack entries[ZG_CACHE_SETS * ZG_CACHE_WAYS];
};

// The stack id, 0 where the stack is not known. Callers that have looked at the set's first entry themselves come with its
// key; it is looked at again.
uint32_t zg_stack_cache_find(struct zg_stack_cache *cache, struct zg_caller caller, uint64_t key);
// Whether this stack, captured just now without the cache's help, should be added: it was captured not long ago, and the
// entries of its set have not proved more useful lately. Notes it otherwise.
bool zg_stack_cache_wants(struct zg_stack_cache *cache, struct zg_caller caller, uint32_t stack);
// Keeps a walk, unless it cannot be compared later.
void zg_stack_cache_add(struct zg_stack_cache *cache, struct zg_caller caller, const struct zg_walk *walk, uint32_t stack);
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
ZG_INLINE uint64_t zg_stack_cache_set(uint64_t key) { return key >> 56; }
_Static_assert(ZG_CACHE_SETS == 256, "zg_stack_cache_set takes eight bits");

ZG_INLINE bool zg_cached_stack_is_unchanged(const struct zg_cached_stack *entry, struct zg_caller caller) {
    const uint64_t *word = entry->words;
    const uint16_t *place = entry->places, *end = place + entry->pair_groups * ZG_CACHE_GROUP;
    uint64_t changed = 0;
    if (entry->uses_fp && entry->fp != caller.fp) return false;
    for (; place < end; place += ZG_CACHE_GROUP, word += 2 * ZG_CACHE_GROUP) {
        for (int i = 0; i < ZG_CACHE_GROUP; i++) {
            const uint64_t *at = (const uint64_t *)(caller.sp + place[i] * UINT64_C(8));
            changed |= (word[2 * i] ^ at[0]) | (word[2 * i + 1] ^ at[1]);
        }
        if (changed << 16) return false;
    }
    for (end = place + entry->word_groups * ZG_CACHE_GROUP; place < end; place += ZG_CACHE_GROUP, word += ZG_CACHE_GROUP) {
        for (int i = 0; i < ZG_CACHE_GROUP; i++)
            changed |= word[i] ^ *(const uint64_t *)(caller.sp + place[i] * UINT64_C(8));
        if (changed << 16) return false;
    }
    return !(changed << 16);
}

#endif
