// Memory tags (profile mte): the processor compares the tag of each 16 bytes of a slot with that of the pointer. A live
// block has a nonzero tag that the slot's last owners did not have. Odd and even slots use different tags, so neighbors
// never share a tag. All other memory (the rest of a slot behind its block, freed and unused slots) has tag 0, which no
// pointer of the program has. The runtime accesses tag-0 memory with untagged addresses; it tags the pointers that it
// returns, and removes the tags of pointers that it is passed. Blocks with a page's alignment have no tag, because
// programs protect and remap their pages. Large blocks have no tag either. Any context; takes no lock.

#ifndef ZG_TAGS_H
#define ZG_TAGS_H

#include "blocks/slab.h"
#include "platform/arch.h"

// The tags of a slot.
struct zg_tagged {
    struct zg_block former; // previous block of the slot, copied when the slot was reused; header 0: there was none
    struct zg_death former_death;
    // Tags of the slot's last block, live or freed, and of the block before; 0: untagged.
    uint8_t tag, former_tag;
    // The tag of the freed slot was set again, with on_finding=continue or to name an object.
    uint8_t opened;
    uint8_t reserved[5];
};

extern bool zg_tags_on __attribute__((visibility("hidden")));
ZG_INLINE bool zg_tags_are_on(void) { return ZG_ARCH_TAGS && ZG_UNLIKELY(zg_tags_on); }

// Start-up, after the slabs. False if the processor or the kernel has no tags, or the address space no room.
bool zg_tags_start(void);
// Call before the slot is reused: records its last block as the former one.
void zg_tags_record_former(const struct zg_slab *slab, uint64_t index);
// Tags a new block after zg_tags_record_former, if its slot can have a tag. Fills the rest of the block's last 16 bytes
// with ZG_FILL_GAP. Returns the pointer for the program.
void *zg_tags_set(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t alignment);
// Returns true if the block has received its tag, so that its memory can be read.
bool zg_tags_are_given(const struct zg_slab *slab, uint64_t index);
// Call before the block's size changes within its slot.
void zg_tags_resize(const struct zg_slab *slab, uint64_t index, uint64_t before, uint64_t size);
// Call when the block is freed: sets the slot's tags to 0, so that no pointer of the program matches.
void zg_tags_clear(const struct zg_slab *slab, uint64_t index);
// Returns the length of the changed range in the block's last granule behind its `size` bytes, and the offset of the
// first changed byte; 0 if nothing changed.
uint64_t zg_tags_find_change(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t *offset, uint8_t *now);
// Returns true if the pointer has this live block's tag, and nothing was written behind its `size` bytes.
bool zg_tags_match(const struct zg_slab *slab, uint64_t index, uint64_t pointer, uint64_t size);
// Returns true if the pointer has a tag, but not that of its slot's last block: it points to an earlier block.
bool zg_tags_is_stale(uint64_t pointer);
// Adds the slot's tag to an address.
uint64_t zg_tags_pointer(uint64_t address);
// Returns the tags of the address's slot; NULL if there are none.
const struct zg_tagged *zg_tags_find(uint64_t address);
// Call when the program was seen to remove tags from pointers. From then on, zg_tags_check_again does nothing: a thread
// whose use of such a pointer has faulted stays without tag checks.
void zg_tags_disable(void);
// Turns on the thread's tag checks again, after a finding or a fault in the runtime turned them off.
void zg_tags_check_again(void);
// Gives the whole freed slot the pointer's tag, so that the pointer can be used. False if the slot has no record.
bool zg_tags_open(uint64_t pointer);

#endif
