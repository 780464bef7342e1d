// Pairs: the combinations of allocation stack and free stack that occurred. A use after free depends on both stacks, so
// pairs are the unit of coverage, and a free of a rare pair is worth the cost of guarding the block at once. Lock-free
// if the pair is known, otherwise under the depot's lock.

#ifndef ZG_PAIRS_H
#define ZG_PAIRS_H

#include "platform/base.h"

// A thread's cache of pairs that the table contains, direct-mapped. Frees of these pairs cost a comparison. The cache
// contains no pair with an unknown free stack.
enum { ZG_CACHED_PAIRS = 256 };
struct zg_pair_cache {
    uint64_t keys[ZG_CACHED_PAIRS]; // pair + 1; 0: empty
};

// A pair is rare until this many of its frees have been guarded at once. Frees of rare pairs are guarded at any cost.
enum { ZG_PAIR_RARE_FREES = 8 };

// Both stacks as one word
ZG_INLINE uint64_t zg_pair(uint32_t alloc_stack, uint32_t free_stack) {
    return ((uint64_t)alloc_stack << 32) + free_stack;
}

// Returns the pair's place in a thread's cache. Ids of stacks are dense, so a sum spreads them well.
ZG_INLINE uint64_t *zg_pair_place(struct zg_pair_cache *cache, uint32_t alloc_stack, uint32_t free_stack) {
    return &cache->keys[(uint8_t)(alloc_stack + 4 * free_stack)];
}
_Static_assert(ZG_CACHED_PAIRS == 256, "a byte is a place");
// Whether the pair is in the cache, so that it need not be added.
ZG_INLINE bool zg_pair_is_cached(struct zg_pair_cache *cache, uint32_t alloc_stack, uint32_t free_stack) {
    return *zg_pair_place(cache, alloc_stack, free_stack) == zg_pair(alloc_stack, free_stack) + 1;
}

// Adds a pair to the table and to the thread's cache. Returns true if no thread has added the pair before and the table
// has room.
bool zg_pair_add(struct zg_pair_cache *cache, uint32_t alloc_stack, uint32_t free_stack);
// Like zg_pair_add, but first looks in the cache.
ZG_INLINE bool zg_pair_note(struct zg_pair_cache *cache, uint32_t alloc_stack, uint32_t free_stack) {
    return !zg_pair_is_cached(cache, alloc_stack, free_stack) && zg_pair_add(cache, alloc_stack, free_stack);
}
// Returns true if the table contains the pair and fewer than ZG_PAIR_RARE_FREES of its frees were noted as guarded at
// once.
bool zg_pair_is_rare(uint64_t pair);
// Notes that a free of the pair was guarded before the program went on. The pair must have been added.
void zg_pair_note_guarded(uint64_t pair);
// Call in the child of a fork: the child must not count a pair as watched that only its parent has counted as seen.
void zg_pair_after_fork_in_child(void);

#endif
