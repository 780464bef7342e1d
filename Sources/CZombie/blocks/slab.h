// The slab heap: a region of address space per size class with an array of slots, and the slots' records in a separate
// region. The class, slot, and record of an address are computed by arithmetic alone.
// Lookups: any context, no lock. Refill and release: slow path, under the class's lock.

#ifndef ZG_SLAB_H
#define ZG_SLAB_H

#include "blocks/free_slots.h"
#include "blocks/size_class.h"
#include "include/zg_block.h"
#include "platform/base.h"
#include "platform/lock.h"

enum { ZG_MAGAZINE_SLOTS = 64 };
struct zg_magazine {
    uint32_t count;
    uint32_t slots[ZG_MAGAZINE_SLOTS]; // slot numbers of one size class; the last is handed out next
};

// A freed slot in one word: bits 0-31 slot number, 32-47 slot size in units of 16 bytes, 48-63 class.
typedef uint64_t zg_slot;
ZG_INLINE uint32_t zg_slot_class(zg_slot slot) { return (uint32_t)(slot >> 48); }
ZG_INLINE uint32_t zg_slot_index(zg_slot slot) { return (uint32_t)slot; }
ZG_INLINE uint64_t zg_slot_bytes(zg_slot slot) { return slot >> 28 & UINT64_C(0xffff0); }

// Invariants: 1. used <= committed <= limit. 2. free.count <= used. 3. Slots above `used`, and opened slots, read as
// zero, and so do their records. The structure is aligned to a power of two, so that indexing the array takes a shift.
struct __attribute__((aligned(256))) zg_slab {
    uint64_t base; // address of slot 0
    struct zg_block *blocks;
    // Death record of each slot, indexed as `blocks`; accessible if zg_slab_has_deaths.
    struct zg_death *deaths;
    // ceil(2^64 / slot_bytes): index = offset * reciprocal >> 64, exact below 2^48 bytes.
    uint64_t reciprocal;
    uint32_t slot_bytes;
    uint32_t magazine; // capacity of a magazine
    uint64_t used;     // slots below this number were handed out at least once
    zg_slot first;     // slot 0 as a zg_slot
    uint64_t filled;   // bytes of a freed block that are filled
    // Trap pointers of slot 0 (trap.h); 0: none.
    uint64_t trap_isa, trap_side, trap_word;
    // The following fields are protected by `lock`.
    struct zg_lock lock __attribute__((aligned(64)));
    uint64_t committed, limit;
    // The bits have memory for all committed slots. They end where the records begin, so that at first both need one
    // mapping and one page-table page.
    struct zg_free_slots free;
    // Number of this class's blocks that a larger class has served (zg_slab_serving_class). Approximate, because the
    // update is not atomic.
    uint32_t asked;
    // Opened slots are below `used`, but read as zero like slots above `used`, and are handed out before those. Also
    // read without the lock.
    uint64_t opened, opened_end;
};

struct zg_slabs {
    uint64_t base, bytes; // all regions
    uint32_t region_shift;
    struct zg_slab slab[ZG_CLASS_COUNT];
};
extern struct zg_slabs zg_slabs;

// Reserves the regions: 2^region_shift bytes for each class. False if the address space has no room.
bool zg_slab_init(uint32_t region_shift);

// Moves free slots into the empty magazine. Returns their number; 0 if the class's region or the memory is used up.
uint32_t zg_slab_refill(uint32_t class, struct zg_magazine *magazine);
// Returns the class whose slots serve blocks of this class. The first few blocks of a size get slots of the next power
// of two, because each class in use costs page-table pages, system calls, and faults at first, and every fork copies
// the page tables of all classes in use.
uint32_t zg_slab_serving_class(uint32_t class);
// Takes back `count` slots in state reusable.
void zg_slab_release(uint32_t class, const uint32_t *slots, uint32_t count);
// Makes sure that each class has committed fresh slots for `bytes` bytes, or for as much as it has committed so far if
// that is more; fewer if its region is used up. Call before a seccomp filter forbids committing. Untouched slots cost
// no memory.
void zg_slab_open_reserve(uint64_t bytes);
// From now on, all slots get death records. Before, only slots of at least ZG_SPARSE_LEAST bytes have them, because
// most programs have no Swift or C++ objects. False if there is no memory for the records.
bool zg_slab_need_deaths(void);
bool zg_slab_has_deaths(const struct zg_slab *slab);
void zg_slab_lock_all(void);
void zg_slab_unlock_all(bool reset);
bool zg_slab_is_valid(const struct zg_slab *slab);
// Returns true if the class has neither free nor opened slots; fresh slots may be left. Reads without the lock.
bool zg_slab_is_dry(uint32_t class);
// Marks slots [from, to) as opened. They and their records must read as zero.
void zg_slab_recycle(uint32_t class, uint64_t from, uint64_t to);
// Takes at most `most` free slots, which are in state reusable. Returns how many it took.
uint32_t zg_slab_take_free(uint32_t class, uint32_t *slots, uint32_t most);

ZG_INLINE uint64_t zg_slab_slot_address(const struct zg_slab *slab, uint64_t index) {
    return slab->base + index * slab->slot_bytes;
}

ZG_INLINE bool zg_slab_contains(uint64_t address) { return address - zg_slabs.base < zg_slabs.bytes; }

// Returns class and slot of an address for which zg_slab_contains is true. `interior` is the distance from the slot's
// start.
ZG_INLINE struct zg_slab *zg_slab_find(uint64_t address, uint64_t *index, uint64_t *interior) {
    uint64_t offset = address - zg_slabs.base;
    struct zg_slab *slab = &zg_slabs.slab[offset >> zg_slabs.region_shift];
    uint64_t inside = address - slab->base;
    *index = (uint64_t)(((unsigned __int128)inside * slab->reciprocal) >> 64);
    *interior = inside - *index * slab->slot_bytes;
    return slab;
}

// Finds the slot that begins at the address, for which zg_slab_contains is true. False if no slot that was ever handed
// out begins there.
ZG_INLINE bool zg_slab_find_start(uint64_t address, struct zg_slab **slab, uint64_t *index) {
    uint64_t interior;
    *slab = zg_slab_find(address, index, &interior);
    return !interior && *index < __atomic_load_n(&(*slab)->used, __ATOMIC_RELAXED);
}

ZG_INLINE zg_slot zg_slab_slot(const struct zg_slab *slab, uint64_t index) { return slab->first | index; }

ZG_INLINE uint64_t zg_slab_requested(const struct zg_slab *slab, uint32_t header) {
    return slab->slot_bytes - zg_header_slack(header);
}

#endif
