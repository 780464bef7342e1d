// The free slots of a size class: a bitmap, from which the slots at the lowest addresses are taken first. Blocks that
// are allocated one after the other then lie side by side, however the program frees
// (docs/design/056-free-slots-by-address.md). Slow path; the caller holds the class's lock.

#ifndef ZG_FREE_SLOTS_H
#define ZG_FREE_SLOTS_H

#include "platform/base.h"

// Slots whose bits make up a group: 64 words of bits, and a word that tells which of these are not 0.
enum { ZG_FREE_GROUP_SLOTS = 64 * 64, ZG_FREE_GROUP_WORDS = 65 };

// Invariants: 1. `count` is the number of set bits. 2. Bit w of a group's first word is set if and only if word w of
// its bits is not 0. 3. If a slot of group g is free, bit g >> range_shift of `ranges` is set.
struct zg_free_slots {
    uint64_t *end;  // the groups lie below this address: group g begins ZG_FREE_GROUP_WORDS * (g + 1) words below it
    uint64_t count; // also read without the lock
    uint64_t ranges;
    uint32_t range_shift; // grows with the class, so that 64 ranges of groups hold all its slots
};

// Returns how many bytes below `end` the bits of the first `slots` slots take.
ZG_INLINE uint64_t zg_free_slots_bytes(uint64_t slots) {
    return zg_round_up(slots, ZG_FREE_GROUP_SLOTS) / ZG_FREE_GROUP_SLOTS * ZG_FREE_GROUP_WORDS * sizeof(uint64_t);
}

// Makes the ranges hold the first `slots` slots. Their bits must be accessible, and 0 for slots that were not put.
void zg_free_slots_grow(struct zg_free_slots *free, uint64_t slots);
// Adds slots that are not free yet.
void zg_free_slots_put(struct zg_free_slots *free, const uint32_t *slots, uint32_t count);
// Takes up to `most` free slots, those with the lowest numbers, and stores them in descending order. Returns their
// number.
uint32_t zg_free_slots_take(struct zg_free_slots *free, uint32_t *slots, uint32_t most);
bool zg_free_slots_has(const struct zg_free_slots *free, uint64_t slot);

#endif
