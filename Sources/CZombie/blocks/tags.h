// Memory tags (profile mte): the processor compares the tag of each 16 bytes of a slot with that of the pointer. A live
// block has a nonzero tag that the slot's last owners did not have. Odd and even slots use different tags, so neighbors
// never have the same. Everything else has tag 0, which no pointer of the program has: the rest of a slot behind its
// block, and freed and unused slots. The runtime accesses these with plain addresses; it tags the pointers that it
// returns and untags those that it is passed.
// Blocks with a page's alignment have no tag, because programs protect and remap their pages. Large blocks have none
// either.
// Any context; takes no lock.

#ifndef ZG_TAGS_H
#define ZG_TAGS_H

#include "blocks/slab.h"
#include "platform/arch.h"

// The tags of a slot.
struct zg_tagged {
    struct zg_block former; // the block before the last one, as of the reuse of its slot; header 0: there was none
    struct zg_death former_death;
    // Tags of the slot's last block, live or freed, and of the one before; 0: untagged.
    uint8_t tag, former_tag;
    // The freed slot has the tag again (on_finding=continue, and to name an object).
    uint8_t opened;
    uint8_t reserved[5];
};

extern bool zg_tags_on __attribute__((visibility("hidden")));
ZG_INLINE bool zg_tags_are_on(void) { return ZG_ARCH_TAGS && ZG_UNLIKELY(zg_tags_on); }

// Start-up, after the slabs. False if the processor or the kernel has no tags, or the address space no room.
bool zg_tags_start(void);
// Call before the slot is reused: records its last block as the former one.
void zg_tags_record_former(const struct zg_slab *slab, uint64_t index);
// Tags a new block after zg_tags_record_former, if its slot can have a tag. Fills the rest of the block's last 16 bytes with
// ZG_FILL_GAP. Returns the pointer for the program.
void *zg_tags_set(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t alignment);
// Returns true if the block has its tag by now, so that its memory can be read.
bool zg_tags_are_given(const struct zg_slab *slab, uint64_t index);
// Call before the block's size changes within its slot.
void zg_tags_resize(const struct zg_slab *slab, uint64_t index, uint64_t before, uint64_t size);
// Call when the block is freed: sets the slot's tags to 0, so that no pointer of the program matches.
void zg_tags_clear(const struct zg_slab *slab, uint64_t index);
// Returns how many of the last 16 bytes changed behind the block, from the first to the last one, and the offset of the
// first; 0: none.
uint64_t zg_tags_find_change(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t *offset, uint8_t *now);
// Returns true if the pointer has this live block's tag, and nothing was written behind its `size` bytes.
bool zg_tags_match(const struct zg_slab *slab, uint64_t index, uint64_t pointer, uint64_t size);
// Returns true if the pointer has the tag of an earlier block of its slot.
bool zg_tags_is_stale(uint64_t pointer);
// Adds the slot's tag to an address.
uint64_t zg_tags_pointer(uint64_t address);
// Returns the tags of the address's slot; NULL if there are none.
const struct zg_tagged *zg_tags_find(uint64_t address);
// Call when the program was seen to remove tags from pointers. A thread that has used such a pointer is no longer
// checked.
void zg_tags_disable(void);
// Turns the thread's tag checks on again, which a finding or a fault in the runtime turned off.
void zg_tags_check_again(void);
// Gives the whole freed slot the pointer's tag, so that the pointer can be used. False if the slot has no record.
bool zg_tags_open(uint64_t pointer);

#endif
