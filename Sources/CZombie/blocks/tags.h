// Memory tags (profile mte): the processor compares the tag of each 16 bytes of a slot with that of the pointer. A live block has a tag that
// is not 0 and that its slot's last owners did not have; slots with even and with odd numbers have tags of their own, so that no two
// neighbours' are the same. What belongs to no live block, behind it in its slot and in dead and unused ones, has tag 0, which no pointer of
// the program's has: there the runtime reads and writes with plain addresses. What it hands out has the tag, what it is handed loses it.
// Blocks of whole pages (an alignment of a page was asked for) have no tag: programs protect them, and map over them. Nor have large ones.
// Any context; takes no lock.

#ifndef ZG_TAGS_H
#define ZG_TAGS_H

#include "blocks/slab.h"
#include "platform/arch.h"

// Of a slot.
struct zg_tagged {
    struct zg_block
        former; // the block before the last one, as it was when its slot was used again; its header is 0 where there was none
    struct zg_death former_death;
    uint8_t tag, former_tag; // of the last block there, dead or not, and of the one before; 0: it had none
    uint8_t opened;          // what is dead there has the tag all the same (on_finding=continue, and to name an object)
    uint8_t reserved[5];
};

extern bool zg_tags_on __attribute__((visibility("hidden")));
ZG_INLINE bool zg_tags_are_on(void) { return ZG_ARCH_TAGS && ZG_UNLIKELY(zg_tags_on); }

// Start-up, after the slabs: false where processor or kernel have no tags, or address space does not reach.
bool zg_tags_start(void);
// The slot is about to be used again: notes whose it was.
void zg_tags_leave(const struct zg_slab *slab, uint64_t index);
// The block, whose slot was left, is made: with its tag, if its slot can have one. What the last 16 bytes have behind it becomes the
// gap's fill. Returns what the program is to get.
void *zg_tags_give(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t alignment);
// It has its tag by now. Its memory can be read.
bool zg_tags_are_given(const struct zg_slab *slab, uint64_t index);
// The same block is about to get another size.
void zg_tags_resize(const struct zg_slab *slab, uint64_t index, uint64_t before, uint64_t size);
// It dies: from here on nobody's pointer leads to it. / As `zg_tags_open` left it.
void zg_tags_take(const struct zg_slab *slab, uint64_t index);
// Bytes behind the block changed, within its last 16: how many, and where the first is. 0: none.
uint64_t zg_tags_find_change(const struct zg_slab *slab, uint64_t index, uint64_t size, uint64_t *offset, uint8_t *now);
// The pointer is this live block's, whose size that is, and nothing was written behind it.
bool zg_tags_fits(const struct zg_slab *slab, uint64_t index, uint64_t pointer, uint64_t size);
// The pointer has the tag of a block that is no longer in this slot.
bool zg_tags_is_stale(uint64_t pointer);
// An address of a tagged block, with its tag.
uint64_t zg_tags_pointer(uint64_t address);
// Of a slot; NULL where none ever had a tag near it.
const struct zg_tagged *zg_tags_find(uint64_t address);
// The program takes tags off its pointers, as it has just shown: nothing is checked any more once a thread has used such a one.
void zg_tags_disable(void);
// The thread's accesses were not checked since something that was found, or since a fault of our own; they are again.
void zg_tags_check_again(void);
// All of this dead slot gets the pointer's tag, so that the pointer can be used.
bool zg_tags_open(uint64_t pointer);

#endif
