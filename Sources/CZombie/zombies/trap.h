// Trap regions: inaccessible address space. A fault address in a trap region tells which freed object was used, and
// which part of the object. A trap window is the part of a region that stands for one slot, or for one word of a slot.
//
//   class pointer    one trap window for each slot; reads in it are reads of class metadata: the offset names a method
//   reference count  one page for each slot; the count of a zombie (Swift) points to a side table in it
//   contents         one trap window for each word of a slot; use of a stored reference names the property
//
// The address of a slot's trap window follows from its size class and number. A region has a limited number of trap
// windows; higher slot numbers wrap around and share them. Facts: Swift's SwiftShims/RefCount.h (side table pointers),
// as measured with Swift 6.3.
// Arithmetic and one reservation; any context, no lock.

#ifndef ZG_TRAP_H
#define ZG_TRAP_H

#include "blocks/size_class.h"
#include "include/zg_trap_place.h"
#include "platform/base.h"

// Class numbers behind the size classes: large blocks (spans), and blocks in windows (second mappings).
enum { ZG_TRAP_SPANS = ZG_CLASS_COUNT, ZG_TRAP_ALIASES, ZG_TRAP_CLASSES };
#define ZG_TRAP_ISA_SHIFT 14 // 16 KiB of metadata for each slot
// Distance of the trap pointer from the start of its trap window. Leaves room for negative offsets.
#define ZG_TRAP_ISA_OFFSET 1024
#define ZG_TRAP_SIDE_SHIFT 12
#define ZG_TRAP_WORD_SHIFT 10 // 1 KiB for each word
#define ZG_TRAP_WORD_OFFSET 64

// Classes with more metadata than a trap window has behind its trap pointer get no trap: an access could fall into the
// next slot's trap window.
#define ZG_TRAP_MOST_METADATA ((1 << ZG_TRAP_ISA_SHIFT) - ZG_TRAP_ISA_OFFSET)

extern struct zg_traps zg_traps;

// Reserves the regions, as large as the address space allows. False if there is no room.
bool zg_trap_init(void);

// Decodes an address in the trap regions of this process.
struct zg_trap_place zg_trap_decode(uint64_t address);

// Trap windows are sorted by slot number, so a slot's trap pointers are those of slot 0 of its class plus a distance.
// Numbers and bytes beyond the size of a region wrap around.
// ZG_TRAP_WORD_STEP is the distance between the trap pointers of adjacent words.
#define ZG_TRAP_WORD_STEP (UINT64_C(1) << ZG_TRAP_WORD_SHIFT)
ZG_INLINE uint64_t zg_trap_number(uint64_t number) { return number & ((UINT64_C(1) << zg_traps.slots_shift) - 1); }
ZG_INLINE uint64_t zg_trap_isa_distance(uint64_t number) { return zg_trap_number(number) << ZG_TRAP_ISA_SHIFT; }
// Reference count word of a zombie (Swift): bits 62 and 63 are set, the other bits are the address of a side table
// shifted right by 3. The count is 16 bytes into the side table.
#define ZG_TRAP_SIDE_BITS(page) ((page) >> 3 | UINT64_C(3) << 62)
#define ZG_TRAP_SIDE_PAGE(bits) ((bits) << 3 & ((UINT64_C(1) << 48) - 1))
ZG_INLINE uint64_t zg_trap_side_distance(uint64_t number) { return zg_trap_number(number) << (ZG_TRAP_SIDE_SHIFT - 3); }
ZG_INLINE uint64_t zg_trap_word_distance(uint64_t byte) {
    return (byte & ((UINT64_C(1) << zg_traps.words_shift) - 1)) >> 3 << ZG_TRAP_WORD_SHIFT;
}

// Returns a trap pointer of slot 0 of a class. For the reference count, returns the word's value.
uint64_t zg_trap_first_isa(uint32_t class);
uint64_t zg_trap_first_side(uint32_t class);
uint64_t zg_trap_first_word(uint32_t class);

#endif
