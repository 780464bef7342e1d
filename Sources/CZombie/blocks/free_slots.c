// The bitmap of free slots: putting and taking slots.
// A signal handler may fork while a change is half made, and the child then takes the lock anew. So each function
// changes the fields in an order in which the child may lose slots, but never counts a slot that is not there.

#include "blocks/free_slots.h"

static uint64_t *group_at(const struct zg_free_slots *free, uint64_t group) {
    return free->end - (group + 1) * ZG_FREE_GROUP_WORDS;
}

// Returns a word whose bit i is set if bit 2i or 2i + 1 is set in `ranges`.
static uint64_t join_pairs(uint64_t ranges) {
    uint64_t joined = 0;
    for (uint32_t i = 0; i < 32; i++) joined |= (uint64_t)((ranges >> 2 * i & 3) != 0) << i;
    return joined;
}

void zg_free_slots_grow(struct zg_free_slots *free, uint64_t slots) {
    while ((slots - 1) / ZG_FREE_GROUP_SLOTS >> free->range_shift >= 64) {
        free->ranges = join_pairs(free->ranges);
        ZG_SIGNAL_FENCE();
        free->range_shift++;
    }
}

void zg_free_slots_put(struct zg_free_slots *free, const uint32_t *slots, uint32_t count) {
    uint64_t ranges = free->ranges;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = slots[i], number = slot / ZG_FREE_GROUP_SLOTS, word = slot / 64 % 64;
        uint64_t *group = group_at(free, number);
        group[1 + word] |= UINT64_C(1) << slot % 64;
        group[0] |= UINT64_C(1) << word;
        ranges |= UINT64_C(1) << (number >> free->range_shift);
    }
    free->ranges = ranges;
    ZG_SIGNAL_FENCE();
    zg_store(&free->count, free->count + count);
}

// Takes free slots of one group, and stores them below index `at`. Returns the index of the last one stored.
static uint32_t take_from_group(const struct zg_free_slots *free, uint64_t number, uint32_t *slots, uint32_t at) {
    uint64_t *group = group_at(free, number);
    while (group[0] && at) {
        uint64_t word = (uint64_t)__builtin_ctzll(group[0]), bits = group[1 + word];
        uint32_t first = (uint32_t)(number * ZG_FREE_GROUP_SLOTS + word * 64);
        for (; bits && at; bits &= bits - 1) slots[--at] = first + (uint32_t)__builtin_ctzll(bits);
        group[1 + word] = bits;
        if (!bits) group[0] &= group[0] - 1;
    }
    return at;
}

// The last range may include groups whose bits are not accessible yet. The loops end before those groups, at the last
// free slot.
uint32_t zg_free_slots_take(struct zg_free_slots *free, uint32_t *slots, uint32_t most) {
    uint32_t count = (uint32_t)zg_min(most, free->count), at = count;
    zg_store(&free->count, free->count - count);
    ZG_SIGNAL_FENCE();
    while (at && free->ranges) {
        uint64_t group = (uint64_t)__builtin_ctzll(free->ranges) << free->range_shift;
        for (uint64_t end = group + (UINT64_C(1) << free->range_shift); group < end && at; group++)
            at = take_from_group(free, group, slots, at);
        if (at) free->ranges &= free->ranges - 1; // the range has no more free slots
    }
    // Only the child of such a fork has fewer slots than are counted.
    if (ZG_UNLIKELY(at)) __builtin_memmove(slots, slots + at, (count - at) * sizeof *slots);
    return count - at;
}

bool zg_free_slots_has(const struct zg_free_slots *free, uint64_t slot) {
    return group_at(free, slot / ZG_FREE_GROUP_SLOTS)[1 + slot / 64 % 64] >> slot % 64 & 1;
}
