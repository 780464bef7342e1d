// Trap regions: inaccessible address space whose addresses say which dead object, and what of it, somebody used.
//
//   class pointer    one window for each slot; what is read through it is metadata of the class: the offset names a method
//   reference count  one page for each slot; a dead Swift object's count is a pointer to a side table in it
//   contents         one window for each word of a slot; a stored reference that is followed names the property
//
// A slot's window is found from its size class and number alone; numbers beyond what a region has room for share windows
// with lower ones. Facts: Swift's SwiftShims/RefCount.h (side table pointers) as measured with Swift 6.3.
// Arithmetic and one reservation; any context, no lock.

#ifndef ZG_TRAP_H
#define ZG_TRAP_H

#include "blocks/size_class.h"
#include "include/zg_trap_place.h"
#include "platform/base.h"

// Behind the size classes: spans, and blocks in windows.
enum { ZG_TRAP_SPANS = ZG_CLASS_COUNT, ZG_TRAP_ALIASES, ZG_TRAP_CLASSES };
#define ZG_TRAP_ISA_SHIFT 14                 // 16 KiB of metadata for each slot
#define ZG_TRAP_ISA_OFFSET 1024              // the pointer's distance from its window's start: negative offsets
#define ZG_TRAP_SIDE_SHIFT 12
#define ZG_TRAP_WORD_SHIFT 10 // 1 KiB behind each word
#define ZG_TRAP_WORD_OFFSET 64

// Classes with more metadata than a window holds get no trap: its neighbour would be blamed.
#define ZG_TRAP_MOST_METADATA ((1 << ZG_TRAP_ISA_SHIFT) - ZG_TRAP_ISA_OFFSET)

extern struct zg_traps zg_traps;

// Reserves the regions, as large as the address space allows. False: there is no room.
bool zg_trap_init(void);

// Of this process.
struct zg_trap_place zg_trap_decode(uint64_t address);

ZG_INLINE bool zg_trap_contains(uint64_t address) { return address - zg_traps.base < zg_traps.bytes; }

// Windows lie side by side in the order of the slots' numbers, so a slot's pointers are those of its class's slot 0 and a
// distance. Numbers and bytes beyond what a region has room for begin anew.
#define ZG_TRAP_WORD_STEP (UINT64_C(1) << ZG_TRAP_WORD_SHIFT) // from one word's pointer to the next one's
ZG_INLINE uint64_t zg_trap_number(uint64_t number) { return number & ((UINT64_C(1) << zg_traps.slots_shift) - 1); }
ZG_INLINE uint64_t zg_trap_isa_distance(uint64_t number) { return zg_trap_number(number) << ZG_TRAP_ISA_SHIFT; }
// The reference count word of a dead Swift object: bits 62 and 63, and a pointer to a side table shifted right by 3. The
// count itself lies 16 bytes into the side table.
#define ZG_TRAP_SIDE_BITS(page) ((page) >> 3 | UINT64_C(3) << 62)
ZG_INLINE uint64_t zg_trap_side_distance(uint64_t number) { return zg_trap_number(number) << (ZG_TRAP_SIDE_SHIFT - 3); }
ZG_INLINE uint64_t zg_trap_word_distance(uint64_t byte) {
    return (byte & ((UINT64_C(1) << zg_traps.words_shift) - 1)) >> 3 << ZG_TRAP_WORD_SHIFT;
}

// Pointers of slot 0 of a class; of the reference count, the word's value.
uint64_t zg_trap_first_isa(uint32_t class);
uint64_t zg_trap_first_side(uint32_t class);
uint64_t zg_trap_first_word(uint32_t class);

#endif
