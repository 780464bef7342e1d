// Implements include/zg_names.h: names for readers of other address spaces. Cold; no state.

#include "include/zg_names.h"

#include "platform/text.h"
#include "zombies/classes.h"
#include "zombies/swift_names.h"

bool zg_names_is_swift_class(const struct zg_space *space, uint64_t metadata) {
    return zg_class_is_swift(space, metadata);
}

bool zg_names_is_cxx_class(const struct zg_space *space, uint64_t table) {
    char name[4];
    return zg_class_cxx_name(space, table, name, sizeof name);
}

bool zg_names_swift_class(const struct zg_space *space, uint64_t metadata, char *name, uint64_t capacity) {
    struct zg_text text;
    zg_text_init(&text, name, capacity);
    return zg_swift_class_name(space, metadata, &text) && !text.truncated;
}

bool zg_names_cxx_class(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity) {
    return zg_class_cxx_name(space, table, name, capacity);
}

bool zg_names_swift_property(const struct zg_space *space, uint64_t metadata, uint64_t byte, char *name,
                             uint64_t capacity) {
    struct zg_text text;
    zg_text_init(&text, name, capacity);
    return zg_swift_property_at(space, metadata, byte, &text) && !text.truncated;
}

uint32_t zg_names_swift_size(const struct zg_space *space, uint64_t metadata) {
    return zg_swift_instance_size(space, metadata);
}

struct zg_names_slot zg_names_swift_slot(const struct zg_space *space, uint64_t metadata, int64_t offset,
                                         char *property, uint64_t capacity) {
    struct zg_swift_slot slot = zg_swift_slot_at(space, metadata, offset);
    struct zg_text text;
    zg_text_init(&text, property, capacity);
    if (slot.part == zg_swift_part_field_offset) zg_swift_field_name(space, slot.class_metadata, slot.field, &text);
    return (struct zg_names_slot){zg_swift_part_access(slot.part), slot.code};
}

struct zg_names_slot zg_names_cxx_slot(const struct zg_space *space, uint64_t table, int64_t offset) {
    struct zg_names_slot slot = {zg_class_cxx_access(offset), 0};
    uint64_t code;
    if (offset >= 0 && space->read(space->context, &code, table + (uint64_t)offset, sizeof code) == sizeof code)
        slot.code = code;
    return slot;
}
