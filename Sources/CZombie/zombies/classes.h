// Recognizes the classes of freed objects by their contents, and numbers the classes. Names are read only for reports.
//
//   Swift  word 0 is class metadata, word 1 the reference count of an object that is being freed
//   C++    word 0 of a block from operator new is a virtual table whose type information is that of a class
//
// A pointer is validated once, by reading its target with system calls that cannot fault. After that, recognition is a
// table lookup. A class number is an index into the table plus one, and stays valid.
// zg_class_of_freed: hot path, no lock. All other functions: cold.

#ifndef ZG_CLASSES_H
#define ZG_CLASSES_H

#include "blocks/slab.h"
#include "include/zg_block.h"
#include "include/zg_space.h"
#include "platform/base.h"
#include "platform/text.h"

struct zg_class {
    enum zg_language language;
    // Swift: metadata; C++: address point of the virtual table.
    uint64_t pointer;
};

// Reference count of a Swift object in free(): deinit has run, and the last strong or the last unowned reference is
// gone. If the top two bits are set (3), the word points to a side table, because the object had weak references
// (SwiftShims/RefCount.h).
#define ZG_SWIFT_DEAD_BITS UINT64_C(0x0000000100000003)
#define ZG_SWIFT_DEAD_UNOWNED_BITS UINT64_C(0x0000000100000001)
#define ZG_SWIFT_IMMORTAL_BITS UINT64_C(0x80000004FFFFFFFF)

extern bool zg_classes_on;

void zg_classes_init(bool on);
// Returns the number of the class, 0 if the pointer is not a class.
uint32_t zg_class_number(uint64_t pointer, enum zg_language language);
// Returns the class; its language is unknown for number 0 and for classes whose image was unloaded.
struct zg_class zg_class_get(uint32_t number);
// Returns the number of a class seen before, else 0. Any context.
uint32_t zg_class_find(uint64_t pointer);
// Forgets all C++ classes, because a library, and its virtual tables, may have been unloaded.
void zg_classes_forget_cxx(void);
// Whether the pointer is metadata of a Swift class or heap object. Does not use the table. Cold, any context.
bool zg_class_is_swift(const struct zg_space *space, uint64_t metadata);
// Writes the mangled name of a C++ class from its type information ("6Circle"). False if `table` is not a virtual
// table. Cold, any context.
bool zg_class_cxx_name(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity);

// Returns what an access at this offset of a C++ virtual table does: "call", "cast", "read".
const char *zg_class_cxx_access(int64_t offset);

// Whether the running Swift runtime lays out objects as expected (process/swift_check.h).
enum zg_swift_layout {
    // No Swift object was freed yet, or the check is pending. The layout is treated as expected.
    zg_swift_unchecked,
    // The layout is as expected. For a statically linked Swift runtime, the check covered only the objects' metadata.
    zg_swift_expected,
    // Swift support is off, and known Swift classes are forgotten.
    zg_swift_unexpected,
};
void zg_class_set_swift_layout(enum zg_swift_layout layout);

ZG_INLINE bool zg_class_may_be_pointer(uint64_t pointer) {
    return !(pointer & 7) && pointer - ZG_PAGE_BYTES < (UINT64_C(1) << ZG_ARCH_ADDRESS_BITS) - ZG_PAGE_BYTES;
}

struct zg_freed_class {
    uint32_t class_number; // 0: not an object
    enum zg_language language;
};

enum { ZG_CLASSES = 1 << 16, ZG_CLASS_PROBES = 16 };
enum { ZG_CLASSES_ALL = ZG_CLASSES + ZG_CLASS_PROBES };
// Table of ZG_CLASSES_ALL entries. NULL if there is no memory for it; zg_classes_on is false then.
extern uint64_t *zg_classes __attribute__((visibility("hidden")));
ZG_INLINE uint64_t zg_class_place(uint64_t pointer) { return (pointer * UINT64_C(0x9e3779b97f4a7c15)) >> 48; }

ZG_INLINE struct zg_freed_class zg_class_look_up(uint64_t pointer, enum zg_language language) {
    uint64_t place = zg_class_place(pointer);
    if (ZG_LIKELY(zg_load(&zg_classes[place]) == (pointer | language)))
        return (struct zg_freed_class){(uint32_t)place + 1, language};
    return (struct zg_freed_class){zg_class_number(pointer, language), language};
}

// Cheap filter: if false, the block was not an object. If true, ask zg_class_of_freed.
ZG_INLINE bool zg_class_may_be_freed(const uint64_t *words, enum zg_alloc_family family) {
    if (family == zg_family_malloc || family == zg_family_aligned) {
        uint64_t bits = words[1];
        return (bits | 2) == ZG_SWIFT_DEAD_BITS || bits >> 62 == 3;
    }
    return zg_class_may_be_pointer(words[0]) && !zg_slab_contains(words[0]);
}

// Returns the class of the object in a block that is being freed. Reads the block's first two words.
ZG_INLINE struct zg_freed_class zg_class_of_freed(const uint64_t *words, enum zg_alloc_family family, uint64_t size) {
    const struct zg_freed_class none = {0, zg_language_unknown};
    uint64_t pointer = words[0];
    if (family == zg_family_malloc || family == zg_family_aligned) {
        uint64_t bits = words[1];
        if (ZG_LIKELY(bits != ZG_SWIFT_DEAD_BITS && bits != ZG_SWIFT_DEAD_UNOWNED_BITS && bits >> 62 != 3)) return none;
        if (!zg_classes_on || !zg_class_may_be_pointer(pointer) || size < 16) return none;
        return zg_class_look_up(pointer, zg_language_swift);
    }
    if (family != zg_family_new && family != zg_family_new_aligned) return none;
    // Most C++ blocks that begin with a pointer to another block are nodes of linked structures, not objects.
    if (!zg_class_may_be_pointer(pointer) || zg_slab_contains(pointer) || !zg_classes_on || size < 8) return none;
    return zg_class_look_up(pointer, zg_language_cxx);
}

#endif
