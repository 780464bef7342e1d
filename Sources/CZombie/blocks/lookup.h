// What is at an address: the block, its state and its stacks, from the out-of-band records alone.
// Any context; takes no lock, dereferences nothing outside the records.

#ifndef ZG_LOOKUP_H
#define ZG_LOOKUP_H

#include "include/zg_block.h"
#include "platform/arch.h"
#include "platform/base.h"

struct zg_block_view {
    struct zg_block *block;
    uint64_t start, size; // as requested
    int64_t offset;       // of the address asked for
    enum zg_state state;
    enum zg_alloc_family family;
    uint32_t zombie; // ZG_HEADER_SWIFT, ZG_HEADER_CXX or 0: `death` is valid
    struct zg_death death;
    uint32_t alloc_stack, free_stack;
    uint32_t alloc_thread, free_thread;
};

// False where the address was never part of a block of ours. A pointer's tag, where it has one (tags.h), tells whose it was: the block that
// is there now, or the one before. All addresses of a view are without.
bool zg_lookup_block(uint64_t pointer, struct zg_block_view *view);
// The address lies in the guarded heap's address space, block or not.
bool zg_lookup_is_ours(uint64_t pointer);
// From the lowest to the highest of it: most of what is not ours lies outside.
extern uint64_t zg_lookup_low, zg_lookup_bytes;
void zg_lookup_init(void);
// Hot path.
ZG_INLINE bool zg_lookup_is_foreign(uint64_t pointer) {
    uint64_t address = zg_arch_address(pointer);
    return ZG_LIKELY(address - zg_lookup_low >= zg_lookup_bytes) || !zg_lookup_is_ours(address);
}
// Of these words, what leads to a block of ours loses its tag: what is compared with addresses.
void zg_lookup_strip(uint64_t *words, int count);
// The same by the tag alone: also the nearest neighbour whose tag this is, which the pointer has left, so many slots away. False where no
// such is known.
bool zg_lookup_by_tag(uint64_t pointer, struct zg_block_view *view, uint32_t *distance);
// What lies in front of the first slot of a class.
bool zg_lookup_is_in_front(uint64_t address);
// The block has pages of its own (fence.h).
bool zg_lookup_is_fenced(const struct zg_block_view *view);
const char *zg_lookup_state_name(enum zg_state state);
const char *zg_lookup_family_name(enum zg_alloc_family family);

#endif
