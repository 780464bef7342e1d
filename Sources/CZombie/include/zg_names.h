// Finds the names of classes and of members of objects, in any address space. zguard uses these functions for other
// processes, the runtime for its own.
// Names are NUL-terminated. Any thread; no state.

#ifndef ZG_NAMES_H
#define ZG_NAMES_H

#include "zg_space.h"

// zg_names_is_swift_class: whether `metadata`, the first word of an object, is the address of Swift class metadata
// (also of a closure context, box or task). zg_names_is_cxx_class: whether `table`, the first word of an object, is the
// address of a C++ virtual table.
bool zg_names_is_swift_class(const struct zg_space *space, uint64_t metadata);
bool zg_names_is_cxx_class(const struct zg_space *space, uint64_t table);

// Writes a name such as "Shop.Cart". False if there is no name, or it does not fit.
bool zg_names_swift_class(const struct zg_space *space, uint64_t metadata, char *name, uint64_t capacity);
// Writes the mangled name from the type information, such as "6Circle". False if there is none.
bool zg_names_cxx_class(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity);
// Writes the name of the stored property at this byte of an instance. False if there is none, or it does not fit.
bool zg_names_swift_property(const struct zg_space *space, uint64_t metadata, uint64_t byte, char *name,
                             uint64_t capacity);
// Returns the instance size of the class without tail-allocated elements, in bytes; 0 if unknown.
uint32_t zg_names_swift_size(const struct zg_space *space, uint64_t metadata);

// Describes an entry of class metadata or of a virtual table: what an access to the entry does, and to which member.
// `offset`: distance of the entry from the address point, in bytes.
struct zg_names_slot {
    const char *access; // call, read, cast, release or unknown
    // Only for `call`: address of the function, or of the async function pointer record; 0 if unknown.
    uint64_t code;
};
struct zg_names_slot zg_names_swift_slot(const struct zg_space *space, uint64_t metadata, int64_t offset,
                                         char *property, uint64_t capacity);
struct zg_names_slot zg_names_cxx_slot(const struct zg_space *space, uint64_t table, int64_t offset);

#endif
