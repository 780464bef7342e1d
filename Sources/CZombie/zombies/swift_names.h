// Reads names from the metadata of Swift classes.
// Finds the class with its contexts and generic arguments, its stored properties, and the role of each metadata word.
// Reads only through struct zg_space, which cannot fault, and calls nothing of the Swift runtime. Cold, any context.
// Layouts: ABI/Metadata.h of the Swift runtime, as measured with Swift 6.3.

#ifndef ZG_SWIFT_NAMES_H
#define ZG_SWIFT_NAMES_H

#include "include/zg_names.h"
#include "platform/base.h"
#include "platform/text.h"

// Appends "Shop.Cart", "Shop.Box<Swift.Int>", "closure context". If no name is found, appends nothing and returns
// false.
bool zg_swift_class_name(const struct zg_space *space, uint64_t metadata, struct zg_text *text);

// Appends the name of the stored property at this byte of an instance, which a superclass may declare. False if no
// property is there, or its name is not in the program (no reflection metadata).
bool zg_swift_property_at(const struct zg_space *space, uint64_t metadata, uint64_t byte, struct zg_text *text);

// Parts of class metadata, by the offset from its address point.
enum zg_swift_metadata_part {
    zg_swift_part_unknown,
    // Kind, superclass, descriptor, size. Casts and type names read them.
    zg_swift_part_type,
    zg_swift_part_destroy,      // deallocating deinit: the last release reads it
    zg_swift_part_method,       // virtual table entry
    zg_swift_part_field_offset, // offset of a stored property
    zg_swift_part_generic,      // generic argument
};
// Returns what an access to the part does: "cast", "release", "call", "read", "unknown".
const char *zg_swift_part_access(enum zg_swift_metadata_part part);
struct zg_swift_slot {
    enum zg_swift_metadata_part part;
    // Method: address of the function, or of the async function pointer record.
    uint64_t code;
    // Field offset: the class that declares the property.
    uint64_t class_metadata;
    uint32_t field; // field offset: index of the property in that class
};
struct zg_swift_slot zg_swift_slot_at(const struct zg_space *space, uint64_t metadata, int64_t offset);
bool zg_swift_field_name(const struct zg_space *space, uint64_t metadata, uint32_t field, struct zg_text *text);
// zg_swift_instance_size returns the bytes of an instance without tail-allocated elements; zg_swift_metadata_size
// returns the bytes of metadata from the address point up. 0 if unknown.
uint32_t zg_swift_instance_size(const struct zg_space *space, uint64_t metadata);
uint32_t zg_swift_metadata_size(const struct zg_space *space, uint64_t metadata);

#endif
