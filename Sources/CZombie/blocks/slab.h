// The slab heap: a region of address space for each size class, an array of slots in it, and the slots' records in a
// region of their own. An address gives class, slot and record by arithmetic alone.
// Lookups: any context, no lock. Refill and release: slow path, under the class's lock.

#ifndef ZG_SLAB_H
#define ZG_SLAB_H

#include "blocks/size_class.h"
#include "blocks/size_class.h"
#include "include/zg_block.h"
#include "platform/base.h"
#include "platform/lock.h"

enum { ZG_MAGAZINE_SLOTS = 64 };
struct zg_magazine {
    uint32_t count;
    uint32_t slots[ZG_MAGAZINE_SLOTS]; // slot numbers of one size class, the last is the next to go
};

// A freed slot in one word: bits 0-31 its number, 32-47 a sixteenth of its bytes, 48-63 its class.
typedef uint64_t zg_slot;
ZG_INLINE uint32_t zg_slot_class(zg_slot slot) { return (uint32_t)(slot >> 48); }
ZG_INLINE uint32_t zg_slot_index(zg_slot slot) { return (uint32_t)slot; }
ZG_INLINE uint64_t zg_slot_bytes(zg_slot slot) { return slot >> 28 & UINT64_C(0xffff0); }

// Invariants: 1. used <= committed <= limit. 2. free_count <= used. 3. Slots above `used`, and those that were opened, read as
// zero, and so do their records.
struct __attribute__((aligned(256))) zg_slab { // whose number is shifted to its place
    uint64_t base;                             // address of slot 0
    struct zg_block *blocks;
    struct zg_death *deaths; // one for each slot, as blocks; accessible where zg_slab_has_deaths
    uint64_t reciprocal;     // ceil(2^64 / slot_bytes): index = offset * reciprocal >> 64, exact below 2^48 bytes
    uint32_t slot_bytes;
    uint32_t magazine; // capacity of a magazine
    uint64_t used;     // the slots below were handed out at least once
    zg_slot first;     // slot 0, in one word
    uint64_t filled;   // bytes of a dead block that are filled
    // Trap pointers of slot 0 (trap.h); 0 where there are none.
    uint64_t trap_isa, trap_side, trap_word;
    // Under the lock:
    struct zg_lock lock __attribute__((aligned(64)));
    uint64_t committed, limit;
    // Of the list of free slots, which grows downwards (zg_slab_free_slot): room for all that are committed.
    uint32_t *free_end;
    uint64_t free_count;         // this, and what was opened, is looked at without the lock, too
    uint32_t asked;              // for blocks that a larger class served, approximate where threads meet
    uint64_t opened, opened_end; // slots below `used` that are as fresh as those above, and handed out first
};

struct zg_slabs {
    uint64_t base, bytes; // all regions
    uint32_t region_shift;
    struct zg_slab slab[ZG_CLASS_COUNT];
};
extern struct zg_slabs zg_slabs;

// Reserves the regions: 2^region_shift bytes for each class. False where the address space does not allow it.
bool zg_slab_init(uint32_t region_shift);

// Moves free slots into the empty magazine. Returns how many; 0 where the class's region or the memory is used up.
uint32_t zg_slab_refill(uint32_t class, struct zg_magazine *magazine);
// The class whose slots are to serve this one. The first few blocks of a size get the slots of a larger one, the next power of two:
// each class that is in use costs pages of the kernel's tables, calls and faults at first, and every fork copies them.
uint32_t zg_slab_source(uint32_t class);
// Takes `count` slots back. They are in state reusable.
void zg_slab_release(uint32_t class, const uint32_t *slots, uint32_t count);
// Makes so much accessible of each class beyond what is in use, and as much again as a class has: for a time when nothing more can
// be. Untouched, it costs no memory.
void zg_slab_open_reserve(uint64_t bytes);
// From now on there are death records of all slots, until then only of those whose blocks may be sparse: most programs have no
// objects. False where there is no memory for them.
bool zg_slab_need_deaths(void);
bool zg_slab_has_deaths(const struct zg_slab *slab);
void zg_slab_lock_all(void);
void zg_slab_unlock_all(bool reset);
bool zg_slab_is_valid(const struct zg_slab *slab);
// Neither free nor opened slots are left; fresh ones may be. Looks without the lock.
bool zg_slab_is_dry(uint32_t class);
// Slots [from, to), which read as zero, as do their records, are to be handed out as fresh ones are.
void zg_slab_open(uint32_t class, uint64_t from, uint64_t to);
// Gives back the memory of the list of free slots as far as the list does not need it.
void zg_slab_trim_list(uint32_t class);
// Takes up to `most` slots out of the list of free ones, state reusable. Returns how many.
uint32_t zg_slab_take_free(uint32_t class, uint32_t *slots, uint32_t most);

ZG_INLINE uint64_t zg_slab_slot_address(const struct zg_slab *slab, uint64_t index) {
    return slab->base + index * slab->slot_bytes;
}

// The list begins where the records do, side by side with them, so that both are one mapping and one page of the kernel's tables at first.
ZG_INLINE uint32_t *zg_slab_free_slot(const struct zg_slab *slab, uint64_t place) { return slab->free_end - 1 - place; }

ZG_INLINE bool zg_slab_contains(uint64_t address) { return address - zg_slabs.base < zg_slabs.bytes; }

// For an address that zg_slab_contains: class and slot. `interior` is the distance from the slot's start.
ZG_INLINE struct zg_slab *zg_slab_find(uint64_t address, uint64_t *index, uint64_t *interior) {
    uint64_t offset = address - zg_slabs.base;
    struct zg_slab *slab = &zg_slabs.slab[offset >> zg_slabs.region_shift];
    uint64_t inside = address - slab->base;
    *index = (uint64_t)(((unsigned __int128)inside * slab->reciprocal) >> 64);
    *interior = inside - *index * slab->slot_bytes;
    return slab;
}

// For an address that zg_slab_contains: the slot that begins there, and was handed out at least once. False where there is none.
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
