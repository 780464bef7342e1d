// Reads names from Swift metadata. Cold, any context; no lock, no state.

#include "zombies/swift_names.h"

#include "blocks/words.h"
#include "zombies/classes.h"

enum { DEPTH_MOST = 6, SUPERCLASSES_MOST = 32, CONTEXTS_MOST = 16, ARGUMENTS_MOST = 32, FIELDS_MOST = 4096 };

// Metadata kinds (ABI/MetadataKind.def). From 0x800 on, the word is an isa pointer of Objective-C class metadata, which
// Linux does not have.
enum {
    kind_class = 0,
    kind_struct = 0x200,
    kind_enum = 0x201,
    kind_optional = 0x202,
    kind_tuple = 0x301,
    kind_function = 0x302,
    kind_existential = 0x303,
    kind_metatype = 0x304,
    kind_closure = 0x400,
    kind_box = 0x500,
    kind_error = 0x501,
    kind_task = 0x502,
};

// Context descriptor kinds (ContextDescriptorKind).
enum {
    context_module = 0,
    context_extension = 1,
    context_anonymous = 2,
    context_protocol = 3,
    context_class = 16,
    context_enum = 18,
    context_last_type = 31
};

static bool read_bytes(const struct zg_space *space, uint64_t address, void *to, uint64_t count) {
    return address >= ZG_PAGE_BYTES && space->read(space->context, to, address, count) == count;
}
static uint64_t word(const struct zg_space *space, uint64_t address) {
    uint64_t value;
    return read_bytes(space, address, &value, sizeof value) ? value : 0;
}
static uint32_t half(const struct zg_space *space, uint64_t address) {
    uint32_t value;
    return read_bytes(space, address, &value, sizeof value) ? value : 0;
}
static uint16_t quarter(const struct zg_space *space, uint64_t address) {
    uint16_t value;
    return read_bytes(space, address, &value, sizeof value) ? value : 0;
}
// Reads a relative pointer. The target is the pointer's own address plus its value; the value 0 stands for null.
static uint64_t relative(const struct zg_space *space, uint64_t address) {
    int32_t distance = (int32_t)half(space, address);
    return distance ? address + (uint64_t)(int64_t)distance : 0;
}
// Reads a relative pointer. If its low bit is set, it points to a pointer to the target.
static uint64_t relative_indirect(const struct zg_space *space, uint64_t address) {
    int32_t distance = (int32_t)half(space, address);
    if (!distance) return 0;
    uint64_t target = address + (uint64_t)(int64_t)(distance & ~1);
    return distance & 1 ? word(space, target) : target;
}

// Appends a name from the program's constants. The name may end just before unreadable memory.
static bool put_name(const struct zg_space *space, struct zg_text *text, uint64_t address) {
    char part[65];
    uint64_t before = text->count;
    if (!address) return false;
    for (int parts = 0; parts < 8; parts++) {
        uint64_t in_page = ZG_PAGE_BYTES - (address & (ZG_PAGE_BYTES - 1)), wanted = zg_min(64, in_page);
        if (space->read(space->context, part, address, wanted) != wanted) break;
        part[wanted] = 0;
        zg_text_string(text, part);
        if (zg_string_length(part) < wanted) return text->count > before;
        address += wanted;
    }
    return text->count > before;
}

static uint32_t context_kind(const struct zg_space *space, uint64_t context) { return half(space, context) & 0x1f; }
static bool is_type(uint32_t kind) { return kind >= context_class && kind <= context_last_type; }

// Returns the address of the parameter count in the generic header of a nominal type descriptor; 0 if the type is not
// generic. The header lies behind the descriptor's fixed part (44 bytes for a class, 28 for a struct or enum) and
// begins with 8 bytes of relative pointers.
static uint64_t generic_header(const struct zg_space *space, uint64_t context) {
    if (!(half(space, context) & 0x80)) return 0;
    return context + (context_kind(space, context) == context_class ? 44 : 28) + 8;
}
// Returns the number of generic parameters of the context and of all enclosing contexts.
static uint32_t parameter_count(const struct zg_space *space, uint64_t context) {
    uint64_t header = generic_header(space, context);
    return header ? quarter(space, header) : 0;
}

// Returns the type that an extension extends, if a direct reference names the type, else 0.
static uint64_t extended_type(const struct zg_space *space, uint64_t extension) {
    uint64_t name = relative(space, extension + 8);
    uint8_t first = 0;
    if (!name || !read_bytes(space, name, &first, 1)) return 0;
    if (first == 1) return relative(space, name + 1);
    if (first == 2) return word(space, relative(space, name + 1));
    return 0;
}

static bool put_type(const struct zg_space *space, uint64_t metadata, struct zg_text *text, int depth);

static bool put_arguments(const struct zg_space *space, uint64_t arguments, uint32_t from, uint32_t to,
                          struct zg_text *text, int depth) {
    if (from >= to || !arguments || to > ARGUMENTS_MOST) return from >= to;
    zg_text_char(text, '<');
    for (uint32_t i = from; i < to; i++) {
        if (i > from) zg_text_string(text, ", ");
        if (!put_type(space, word(space, arguments + 8 * i), text, depth + 1)) return false;
    }
    zg_text_char(text, '>');
    return true;
}

// Appends "Module.Outer<Int>.Inner", from the outermost context inwards. `arguments` is the address of the generic
// arguments in the metadata, 0 for a context without metadata (a protocol).
static bool put_context(const struct zg_space *space, uint64_t context, uint64_t arguments, struct zg_text *text,
                        int depth) {
    uint64_t chain[CONTEXTS_MOST];
    int count = 0;
    // Limits the steps: damaged metadata may form a cycle, also of extensions that extend each other.
    for (int steps = 0; context && count < CONTEXTS_MOST; steps++) {
        if (steps == CONTEXTS_MOST * 4) return false;
        uint32_t kind = context_kind(space, context);
        if (kind == context_extension) {
            uint64_t extended = extended_type(space, context);
            if (!extended) return false;
            context = extended;
            continue;
        }
        if (kind != context_anonymous) chain[count++] = context;
        if (kind == context_module) break;
        context = relative_indirect(space, context + 4);
    }
    if (!count || count == CONTEXTS_MOST) return false;
    uint32_t known = 0;
    for (int i = count - 1; i >= 0; i--) {
        if (!put_name(space, text, relative(space, chain[i] + 8))) return false;
        if (is_type(context_kind(space, chain[i]))) {
            uint32_t parameters = parameter_count(space, chain[i]);
            if (parameters > known && !put_arguments(space, arguments, known, parameters, text, depth)) return false;
            known = zg_max(known, parameters);
        }
        if (i) zg_text_char(text, '.');
    }
    return true;
}

// Returns the address of the class's immediate members, which are the members that it adds to its superclass's
// metadata. If the superclass is resilient, their offset is known only after the class is loaded.
static uint64_t immediate_members(const struct zg_space *space, uint64_t metadata, uint64_t descriptor) {
    uint32_t flags = half(space, descriptor) >> 16;
    if (flags & 1u << 13) return metadata + word(space, relative(space, descriptor + 24));
    if (flags & 1u << 12) return metadata - 8 * (uint64_t)half(space, descriptor + 24);
    return metadata + 8 * (uint64_t)(half(space, descriptor + 28) - half(space, descriptor + 32));
}

static uint64_t class_descriptor(const struct zg_space *space, uint64_t metadata) {
    uint64_t descriptor = word(space, metadata + 40);
    return context_kind(space, descriptor) == context_class ? descriptor : 0;
}

static bool put_class(const struct zg_space *space, uint64_t metadata, struct zg_text *text, int depth) {
    uint64_t descriptor = class_descriptor(space, metadata);
    return descriptor && put_context(space, descriptor, immediate_members(space, metadata, descriptor), text, depth);
}

static bool put_list(const struct zg_space *space, uint64_t first, uint64_t step, uint64_t count, struct zg_text *text,
                     int depth) {
    if (count > ARGUMENTS_MOST) return false;
    zg_text_char(text, '(');
    for (uint64_t i = 0; i < count; i++) {
        if (i) zg_text_string(text, ", ");
        if (!put_type(space, word(space, first + step * i), text, depth + 1)) return false;
    }
    zg_text_char(text, ')');
    return true;
}

// Appends the name of an existential type. Flags: bit 31: not class-bound; bits 24-29: special protocol (1: Error); bit
// 30: has a superclass.
static bool put_existential(const struct zg_space *space, uint64_t metadata, struct zg_text *text) {
    uint32_t flags = half(space, metadata + 8), count = half(space, metadata + 12);
    if ((flags >> 24 & 0x3f) == 1) {
        zg_text_string(text, "Swift.Error");
        return true;
    }
    if (flags & 1u << 30 || count > 8) return false;
    if (!count) {
        zg_text_string(text, flags & 1u << 31 ? "Any" : "Swift.AnyObject");
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t protocol = word(space, metadata + 16 + 8 * i);
        if (i) zg_text_string(text, " & ");
        if (protocol & 1 || !put_context(space, protocol, 0, text, 0)) return false;
    }
    return true;
}

static bool put_type(const struct zg_space *space, uint64_t metadata, struct zg_text *text, int depth) {
    // Damaged metadata may contain cycles, with many branches on each level. The limited text ends the recursion.
    if (!metadata || metadata & 7 || depth > DEPTH_MOST || text->truncated) return false;
    uint64_t kind = word(space, metadata);
    switch (kind) {
    case kind_class: return put_class(space, metadata, text, depth);
    case kind_struct:
    case kind_enum:
    case kind_optional: {
        uint64_t descriptor = word(space, metadata + 8);
        return is_type(context_kind(space, descriptor)) && put_context(space, descriptor, metadata + 16, text, depth);
    }
    case kind_tuple: return put_list(space, metadata + 24, 16, word(space, metadata + 8), text, depth);
    case kind_function:
        if (!put_list(space, metadata + 24, 8, word(space, metadata + 8) & 0xffff, text, depth)) return false;
        zg_text_string(text, " -> ");
        return put_type(space, word(space, metadata + 16), text, depth + 1);
    case kind_existential: return put_existential(space, metadata, text);
    case kind_metatype:
        if (!put_type(space, word(space, metadata + 8), text, depth + 1)) return false;
        zg_text_string(text, ".Type");
        return true;
    default: return false;
    }
}

// Whether an enum has an indirect case, as its field descriptor says.
static bool has_indirect_case(const struct zg_space *space, uint64_t descriptor) {
    uint64_t fields = relative(space, descriptor + 16);
    uint32_t count = fields ? half(space, fields + 12) : 0, bytes = fields ? quarter(space, fields + 10) : 0;
    for (uint32_t i = 0; i < count && i < FIELDS_MOST; i++)
        if (half(space, fields + 16 + (uint64_t)bytes * i) & 1) return true;
    return false;
}

// Returns the descriptor of the enum of which the object is a payload, or 0. The payload of an indirect case has the
// metadata of a closure context with one capture. It is recognized only if the capture is a tuple that contains the
// enum, as in most recursive enums. Capture descriptor: number of captures, two more numbers, then the mangled types,
// in which a symbolic reference is a control character and a relative pointer.
static uint64_t payload_owner(const struct zg_space *space, uint64_t metadata) {
    enum { TYPE_MOST = 256, REFERENCE_BYTES = 4, DIRECT = 1, INDIRECT = 2, LAST_RELATIVE = 0x17 };
    uint64_t captures = word(space, metadata + 16), owner = 0;
    uint64_t type = captures && half(space, captures) == 1 ? relative(space, captures + 12) : 0;
    uint8_t c = 0, last = 0;
    for (uint64_t at = type; type && at < type + TYPE_MOST && read_bytes(space, at, &c, 1) && c; at++, last = c) {
        if (c > LAST_RELATIVE) continue;
        uint64_t context = relative(space, at + 1);
        if (c == INDIRECT) context = word(space, context);
        if (!owner && (c == DIRECT || c == INDIRECT) && context_kind(space, context) == context_enum &&
            has_indirect_case(space, context))
            owner = context;
        at += REFERENCE_BYTES;
    }
    return last == 't' && !c ? owner : 0;
}

// Appends "closure context", or "indirect enum Shop.Expression" for the payload of an indirect case of this enum.
static void put_closure(const struct zg_space *space, uint64_t metadata, struct zg_text *text) {
    uint64_t owner = payload_owner(space, metadata), before = text->count;
    if (owner) {
        zg_text_string(text, "indirect enum ");
        uint64_t name = text->count;
        if (put_context(space, owner, 0, text, 0)) return;
        text->count = name; // a generic enum: the metadata does not have its arguments
        if (put_name(space, text, relative(space, owner + 8))) return;
        text->count = before;
    }
    zg_text_string(text, "closure context");
}

bool zg_swift_class_name(const struct zg_space *space, uint64_t metadata, struct zg_text *text) {
    uint64_t before = text->count;
    bool known = true;
    switch (word(space, metadata)) {
    case kind_class: known = zg_class_is_swift(space, metadata) && put_class(space, metadata, text, 0); break;
    case kind_closure: put_closure(space, metadata, text); break;
    case kind_box: zg_text_string(text, "box"); break;
    case kind_error: zg_text_string(text, "boxed error"); break;
    case kind_task: zg_text_string(text, "Swift.Task"); break;
    default: known = false;
    }
    if (known) return true;
    text->count = before;
    text->bytes[before] = 0;
    // If a generic argument has no name, append the name of the class alone.
    uint64_t descriptor = word(space, metadata) == kind_class ? class_descriptor(space, metadata) : 0;
    return descriptor && put_name(space, text, relative(space, descriptor + 8));
}

uint32_t zg_swift_instance_size(const struct zg_space *space, uint64_t metadata) {
    return word(space, metadata) == kind_class ? half(space, metadata + 24) : 0;
}

uint32_t zg_swift_metadata_size(const struct zg_space *space, uint64_t metadata) {
    if (word(space, metadata) != kind_class) return 64;
    return half(space, metadata + 32) - half(space, metadata + 36);
}

// Appends the name of a stored property. Field descriptor: mangled name, superclass, kind (u16), record size (u16),
// count. Field record: flags, type, name.
bool zg_swift_field_name(const struct zg_space *space, uint64_t metadata, uint32_t field, struct zg_text *text) {
    uint64_t descriptor = class_descriptor(space, metadata), fields = descriptor ? relative(space, descriptor + 16) : 0;
    if (!fields || field >= half(space, fields + 12)) return false;
    uint64_t record = fields + 16 + (uint64_t)quarter(space, fields + 10) * field;
    // Prefix that the compiler gives to the storage of a lazy property.
    static const char lazy[] = "$__lazy_storage_$_";
    uint64_t before = text->count;
    if (!put_name(space, text, relative(space, record + 8))) return false;
    const char *name = text->bytes + before;
    for (uint64_t i = 0; lazy[i]; i++)
        if (name[i] != lazy[i]) return true;
    uint64_t length = text->count - before - (sizeof lazy - 1);
    for (uint64_t i = 0; i <= length; i++) text->bytes[before + i] = text->bytes[before + i + sizeof lazy - 1];
    text->count -= sizeof lazy - 1;
    return true;
}

// Returns the address of the field offset vector in the metadata; 0 if there is none.
static uint64_t field_offsets(const struct zg_space *space, uint64_t metadata, uint64_t descriptor) {
    uint32_t place = half(space, descriptor + 40);
    if (!place || !half(space, descriptor + 36)) return 0;
    bool resilient = half(space, descriptor) >> 16 & 1u << 13;
    return (resilient ? immediate_members(space, metadata, descriptor) : metadata) + 8 * (uint64_t)place;
}

// Finds the field with the highest offset at or below this byte of an instance. Returns the metadata of the class that
// declares it; 0 if there is none.
static uint64_t find_field(const struct zg_space *space, uint64_t metadata, uint64_t byte, uint32_t *field) {
    if (word(space, metadata) != kind_class || byte < 16 || byte >= half(space, metadata + 24)) return 0;
    uint64_t best = 0, owner = 0;
    uint64_t class = metadata;
    for (int i = 0; class && i < SUPERCLASSES_MOST; i++, class = word(space, class + 8)) {
        uint64_t descriptor = class_descriptor(space, class),
                 offsets = descriptor ? field_offsets(space, class, descriptor) : 0;
        uint32_t count = offsets ? half(space, descriptor + 36) : 0;
        for (uint32_t j = 0; j < count && j < FIELDS_MOST; j++) {
            uint64_t offset = word(space, offsets + 8 * j);
            if (offset > byte || offset < best || (offset == best && owner)) continue;
            best = offset, owner = class, *field = j;
        }
    }
    return best >= 16 ? owner : 0;
}

bool zg_swift_property_at(const struct zg_space *space, uint64_t metadata, uint64_t byte, struct zg_text *text) {
    uint32_t field = 0;
    uint64_t owner = find_field(space, metadata, byte, &field);
    return owner && zg_swift_field_name(space, owner, field, text);
}

// Returns the address of the virtual table header, or 0. It lies behind the descriptor's fixed part, the generic header
// with parameters and requirements, the resilient superclass, and the metadata initialization. Virtual table header:
// offset, count, entries.
static uint64_t virtual_table(const struct zg_space *space, uint64_t descriptor) {
    uint32_t flags = half(space, descriptor), type_flags = flags >> 16;
    if (!(type_flags & 1u << 15)) return 0;
    uint64_t at = descriptor + 44;
    if (flags & 0x80) {
        uint32_t parameters = quarter(space, at + 8), requirements = quarter(space, at + 10),
                 more = quarter(space, at + 14);
        // The layout of value parameters and conditional conformances is not implemented here.
        if (more & ~1u) return 0;
        at += 16 + zg_round_up(parameters, 4) + 12 * (uint64_t)requirements;
        if (more & 1) at += 4 + 8 * (uint64_t)quarter(space, at); // skips the header of type packs
    }
    if (type_flags & 1u << 13) at += 4;
    if ((type_flags & 3) == 1) at += 12;
    if ((type_flags & 3) == 2) at += 4;
    return at;
}

struct zg_swift_slot zg_swift_slot_at(const struct zg_space *space, uint64_t metadata, int64_t offset) {
    struct zg_swift_slot slot = {.part = zg_swift_part_unknown};
    if (offset < 0) {
        if (offset == -16) slot.part = zg_swift_part_destroy;
        else if (offset == -8) slot.part = zg_swift_part_type;
        return slot;
    }
    if (word(space, metadata) != kind_class || offset < 48) {
        slot.part = zg_swift_part_type;
        return slot;
    }
    uint64_t place = metadata + (uint64_t)offset, class = metadata;
    for (int i = 0; class && i < SUPERCLASSES_MOST; i++, class = word(space, class + 8)) {
        // Metadata of a subclass begins with a copy of its superclass's, so the same offset applies in both.
        uint64_t descriptor = class_descriptor(space, class);
        if (!descriptor) continue;
        uint64_t base = metadata - class;
        uint64_t fields = field_offsets(space, class, descriptor), table = virtual_table(space, descriptor);
        if (fields && place - (fields + base) < 8 * (uint64_t)half(space, descriptor + 36)) {
            slot.part = zg_swift_part_field_offset;
            slot.class_metadata = class;
            slot.field = (uint32_t)((place - (fields + base)) / 8);
            return slot;
        }
        uint64_t first = table ? 8 * (uint64_t)half(space, table) : 0;
        if (table && half(space, descriptor) >> 16 & 1u << 13)
            first += immediate_members(space, class, descriptor) - class;
        if (table && (uint64_t)offset - first < 8 * (uint64_t)half(space, table + 4)) {
            slot.part = zg_swift_part_method;
            slot.code = word(space, place);
            return slot;
        }
        uint32_t parameters = half(space, descriptor) & 0x80 ? quarter(space, descriptor + 52) : 0;
        uint64_t arguments = immediate_members(space, class, descriptor) + base;
        if (place - arguments < 8 * (uint64_t)parameters) slot.part = zg_swift_part_generic;
    }
    return slot;
}

const char *zg_swift_part_access(enum zg_swift_metadata_part part) {
    switch (part) {
    case zg_swift_part_type: return ZG_ACCESS(cast);
    case zg_swift_part_destroy: return ZG_ACCESS(release);
    case zg_swift_part_method: return ZG_ACCESS(call);
    case zg_swift_part_field_offset:
    case zg_swift_part_generic: return ZG_ACCESS(read);
    case zg_swift_part_unknown: break;
    }
    return ZG_ACCESS(unknown);
}
