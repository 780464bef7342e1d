// Names from the metadata of Swift classes: the class with its contexts and generic arguments, its stored properties, and
// what lies where in the metadata. Everything is read through the space, which cannot fault; nothing of the Swift runtime
// is called. Cold, any context. Layouts: ABI/Metadata.h of the Swift runtime, as measured with Swift 6.3.

#ifndef ZG_SWIFT_NAMES_H
#define ZG_SWIFT_NAMES_H

#include "include/zg_names.h"
#include "platform/base.h"
#include "platform/text.h"

// "Shop.Cart", "Shop.Box<Swift.Int>", "closure context". False: no name could be found, nothing was written.
bool zg_swift_class_name(const struct zg_space *space, uint64_t metadata, struct zg_text *text);

// The stored property at this byte of an instance, superclasses included. False where no property lies there or its name
// is not in the program (no reflection metadata).
bool zg_swift_property_at(const struct zg_space *space, uint64_t metadata, uint64_t byte, struct zg_text *text);

// What lies at this offset from the metadata's address point.
enum zg_swift_metadata_part {
    zg_swift_part_unknown,
    zg_swift_part_type,         // kind, superclass, descriptor, size: casts and type names read it
    zg_swift_part_destroy,      // the deallocating deinit: the last release reads it
    zg_swift_part_method,       // virtual table
    zg_swift_part_field_offset, // of a stored property
    zg_swift_part_generic,      // generic arguments
};
// What an access to it does: "cast", "release", "call", "read", "unknown".
const char *zg_swift_part_access(enum zg_swift_metadata_part part);
struct zg_swift_slot {
    enum zg_swift_metadata_part part;
    uint64_t code;           // method: address of the function (or of the record of an async one)
    uint64_t class_metadata; // field offset: the class whose property it is
    uint32_t field;          // field offset: number of the property in it
};
struct zg_swift_slot zg_swift_slot_at(const struct zg_space *space, uint64_t metadata, int64_t offset);
bool zg_swift_field_name(const struct zg_space *space, uint64_t metadata, uint32_t field, struct zg_text *text);
// Bytes that an instance has without its tail, 0 where unknown; bytes of metadata from the address point up.
uint32_t zg_swift_instance_size(const struct zg_space *space, uint64_t metadata);
uint32_t zg_swift_metadata_size(const struct zg_space *space, uint64_t metadata);

#endif
