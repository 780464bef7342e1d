// Classes and members of objects in whatever address space: how zguard names, from outside, what the runtime names within.
// Names are written with a NUL at their end. Any thread; no state.

#ifndef ZG_NAMES_H
#define ZG_NAMES_H

#include "zg_space.h"

// What this address is, as a pointer in an object's first word: the metadata of a Swift class (closures, boxes and tasks
// included), the virtual table of a C++ class.
bool zg_names_is_swift_class(const struct zg_space *space, uint64_t metadata);
bool zg_names_is_cxx_class(const struct zg_space *space, uint64_t table);

// "Shop.Cart". False where there is no name, or it does not fit.
bool zg_names_swift_class(const struct zg_space *space, uint64_t metadata, char *name, uint64_t capacity);
// The mangled name in the type information, "6Circle".
bool zg_names_cxx_class(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity);
// The stored property at this byte of an instance.
bool zg_names_swift_property(const struct zg_space *space, uint64_t metadata, uint64_t byte, char *name,
                             uint64_t capacity);
// Bytes that an instance of the class has at the least; 0 where unknown.
uint32_t zg_names_swift_size(const struct zg_space *space, uint64_t metadata);

// What stands in a class's metadata, or in a virtual table, at a distance from where objects point to: what an access there
// does, and of which member.
struct zg_names_slot {
    const char *access; // call, read, cast, release or unknown
    uint64_t code;      // call: address of the function (of the record of an async one); 0: not known
};
struct zg_names_slot zg_names_swift_slot(const struct zg_space *space, uint64_t metadata, int64_t offset,
                                         char *property, uint64_t capacity);
struct zg_names_slot zg_names_cxx_slot(const struct zg_space *space, uint64_t table, int64_t offset);

#endif
