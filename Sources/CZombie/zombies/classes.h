// The classes of dead objects: recognised by content when a block is freed, numbered, named when a report needs it.
//
//   Swift  word 0 is the class's metadata, word 1 the reference count as it is when an object goes
//   C++    word 0 of a block from operator new is a virtual table whose type information is a class's
//
// A pointer is validated once, by reading what it leads to with system calls that cannot fault; after that recognition is
// a look-up in a table. Numbers are indices into that table and stay valid.
// zg_class_of_dead: hot path, no lock. The rest: cold.

#ifndef ZG_CLASSES_H
#define ZG_CLASSES_H

#include "blocks/slab.h"
#include "include/zg_block.h"
#include "include/zg_space.h"
#include "platform/base.h"
#include "platform/text.h"

struct zg_class {
    enum zg_language language;
    uint64_t pointer; // Swift: metadata, C++: virtual table (its address point)
};

// Reference count of a Swift object in free(): deinit has run, and the last strong or the last unowned reference went.
// 0x3 in the top bits: a side table, which a weak reference had made (SwiftShims/RefCount.h).
#define ZG_SWIFT_DEAD_BITS UINT64_C(0x0000000100000003)
#define ZG_SWIFT_DEAD_UNOWNED_BITS UINT64_C(0x0000000100000001)
#define ZG_SWIFT_IMMORTAL_BITS UINT64_C(0x80000004FFFFFFFF)

extern bool zg_classes_on;

void zg_classes_init(bool on);
// The class's number, 0 where the pointer is none.
uint32_t zg_class_number(uint64_t pointer, enum zg_language language);
// Unknown for 0 and for classes whose image was unloaded.
struct zg_class zg_class_get(uint32_t number);
// Number of an already known class, 0 where it is not known. Any context.
uint32_t zg_class_find(uint64_t pointer);
// A library may have gone, and its virtual tables with it.
void zg_classes_forget_cxx(void);
// Validates without the table: the metadata of a Swift class. Cold, any context.
bool zg_class_is_swift(const struct zg_space *space, uint64_t metadata);
// The mangled name of a C++ class, as in its type information ("6Circle"). Cold, any context.
bool zg_class_cxx_name(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity);

// What an access to this place of a C++ class's virtual table does: "call", "cast", "read".
const char *zg_class_cxx_access(int64_t offset);

// Whether the running Swift runtime lays out objects as we expect (process/swift_check.h).
enum zg_swift_layout {
    zg_swift_unchecked,  // no Swift object was seen yet, or the check is still to come: taken for the expected one
    zg_swift_expected,   // as expected; where the runtime is linked statically, as far as its objects show it
    zg_swift_unexpected, // Swift support is off, and the Swift classes that were known are forgotten
};
void zg_class_set_swift_layout(enum zg_swift_layout layout);

ZG_INLINE bool zg_class_may_be_pointer(uint64_t pointer) {
    return !(pointer & 7) && pointer - ZG_PAGE_BYTES < (UINT64_C(1) << ZG_ARCH_ADDRESS_BITS) - ZG_PAGE_BYTES;
}

struct zg_dead {
    uint32_t class_number; // 0: no object
    enum zg_language language;
};

enum { ZG_CLASSES = 1 << 16, ZG_CLASS_PROBES = 16 };
enum { ZG_CLASSES_ALL = ZG_CLASSES + ZG_CLASS_PROBES };
// So many; NULL where there is no memory for them, and zg_classes_on is false.
extern uint64_t *zg_classes __attribute__((visibility("hidden")));
ZG_INLINE uint64_t zg_class_place(uint64_t pointer) { return (pointer * UINT64_C(0x9e3779b97f4a7c15)) >> 48; }

ZG_INLINE struct zg_dead zg_class_look_up(uint64_t pointer, enum zg_language language) {
    uint64_t place = zg_class_place(pointer);
    if (ZG_LIKELY(zg_load(&zg_classes[place]) == (pointer | language)))
        return (struct zg_dead){(uint32_t)place + 1, language};
    return (struct zg_dead){zg_class_number(pointer, language), language};
}

// Such a block may have been an object: whether it was, zg_class_of_dead says.
ZG_INLINE bool zg_class_may_be_dead(const uint64_t *words, enum zg_alloc_family family) {
    if (family == zg_family_malloc || family == zg_family_aligned) {
        uint64_t bits = words[1];
        return (bits | 2) == ZG_SWIFT_DEAD_BITS || bits >> 62 == 3;
    }
    return zg_class_may_be_pointer(words[0]) && !zg_slab_contains(words[0]);
}

// The class of an object that lay in a block being freed. Reads two words of the block.
ZG_INLINE struct zg_dead zg_class_of_dead(const uint64_t *words, enum zg_alloc_family family, uint64_t size) {
    const struct zg_dead none = {0, zg_language_unknown};
    uint64_t pointer = words[0];
    if (family == zg_family_malloc || family == zg_family_aligned) {
        uint64_t bits = words[1];
        if (ZG_LIKELY(bits != ZG_SWIFT_DEAD_BITS && bits != ZG_SWIFT_DEAD_UNOWNED_BITS && bits >> 62 != 3)) return none;
        if (!zg_classes_on || !zg_class_may_be_pointer(pointer) || size < 16) return none;
        return zg_class_look_up(pointer, zg_language_swift);
    }
    if (family != zg_family_new && family != zg_family_new_aligned) return none;
    // Most blocks of C++ that begin with a pointer are nodes: it leads to the next one.
    if (!zg_class_may_be_pointer(pointer) || zg_slab_contains(pointer) || !zg_classes_on || size < 8) return none;
    return zg_class_look_up(pointer, zg_language_cxx);
}

#endif
