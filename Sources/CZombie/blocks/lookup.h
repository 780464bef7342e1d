// Finds the block at an address with its state and stacks, by the out-of-band records alone.
// Any context; takes no lock, and dereferences nothing outside the records.

#ifndef ZG_LOOKUP_H
#define ZG_LOOKUP_H

#include "include/zg_block.h"
#include "platform/arch.h"
#include "platform/base.h"

struct zg_block_view {
    struct zg_block *block;
    uint64_t start, size; // the requested size
    int64_t offset;       // offset in the block of the address that was passed to the lookup
    enum zg_state state;
    enum zg_alloc_family family;
    uint32_t zombie; // ZG_HEADER_SWIFT or ZG_HEADER_CXX; 0: `death` is not valid
    struct zg_death death;
    uint32_t alloc_stack, free_stack;
    uint32_t alloc_thread, free_thread;
};

// Returns false if the address was never part of a guarded block. A tagged pointer (tags.h) selects, by its tag, the
// slot's current or its previous block. All addresses of a view are without tags.
bool zg_lookup_block(uint64_t pointer, struct zg_block_view *view);
// Returns true if the address lies in the guarded heap's areas, whether or not in a block.
bool zg_lookup_is_in_heap(uint64_t pointer);
// A range that contains all areas of the guarded heap. One comparison with it rejects most foreign addresses.
extern uint64_t zg_lookup_low, zg_lookup_bytes;
void zg_lookup_init(void);
// Hot path.
ZG_INLINE bool zg_lookup_is_foreign(uint64_t pointer) {
    uint64_t address = zg_arch_address(pointer);
    return ZG_LIKELY(address - zg_lookup_low >= zg_lookup_bytes) || !zg_lookup_is_in_heap(address);
}
// Removes the tags of those words that point into the guarded heap, so that they can be compared with addresses.
void zg_lookup_strip(uint64_t *words, int count);
// Finds the block that zg_lookup_block finds. If that finds none for the pointer's tag, finds the nearest block with
// this tag, `*distance` slots away from the address. False if there is none, or the pointer has no tag.
bool zg_lookup_by_tag(uint64_t pointer, struct zg_block_view *view, uint32_t *distance);
// Returns true if the address lies shortly in front of the first slot of a class.
bool zg_lookup_is_in_front(uint64_t address);
// Returns true if the block is isolated (private_pages.h) or in a window.
bool zg_lookup_is_isolated(const struct zg_block_view *view);
const char *zg_lookup_state_name(enum zg_state state);
const char *zg_lookup_family_name(enum zg_alloc_family family);

#endif
