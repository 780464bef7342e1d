// Recognizes the classes of freed objects.
// zg_class_number: hot path, lock-free; makes system calls to validate a new pointer.

#include "zombies/classes.h"

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/words.h"
#include "images/space.h"
#include "platform/os.h"
#include "settings/stats.h"
#include "threads/thread.h"

enum { STRANGERS = 1024 };
#define LANGUAGE_BITS UINT64_C(3)
#define MAYBE_UNLOADED UINT64_C(4)

bool zg_classes_on;

// Open-addressed hash table. An entry is the class pointer with its language in the low bits, and MAYBE_UNLOADED if its
// library may have been unloaded. Entries are added and never removed. A class number is an index plus one.
uint64_t *zg_classes;
// Hash of the type name of each C++ class, because another library at the same address may have another class there.
static uint32_t *name_hashes;
// Direct-mapped cache of pointers that are not classes.
static uint64_t non_classes[STRANGERS];
// Whether any pointer was validated. If not, there is no class to forget.
static bool is_used;

void zg_classes_init(bool on) {
    uint64_t *tables = on ? zg_os_map_for_good(ZG_CLASSES_ALL * (sizeof *zg_classes + sizeof *name_hashes)) : NULL;
    if (on && !tables) zg_stats_degrade(zg_degradation_no_table_memory);
    zg_classes = tables;
    name_hashes = tables ? (uint32_t *)(tables + ZG_CLASSES_ALL) : NULL;
    zg_classes_on = tables != NULL;
}

static uint32_t find(uint64_t pointer) {
    uint64_t start = zg_class_place(pointer);
    if (!zg_classes) return 0;
    for (uint64_t i = start; i < start + ZG_CLASS_PROBES; i++) {
        uint64_t entry = zg_load(&zg_classes[i]);
        if ((entry & ~LANGUAGE_BITS) == pointer) return (uint32_t)i + 1; // with MAYBE_UNLOADED, an entry does not match
        if (!entry) return 0;
    }
    return 0;
}

uint32_t zg_class_find(uint64_t pointer) { return pointer & 7 ? 0 : find(pointer); }

static uint32_t add(uint64_t pointer, enum zg_language language, uint32_t name_hash) {
    uint64_t start = zg_class_place(pointer), wanted = pointer | language;
    for (uint64_t i = start; i < start + ZG_CLASS_PROBES; i++) {
        uint64_t entry = zg_load(&zg_classes[i]);
        if (!entry &&
            __atomic_compare_exchange_n(&zg_classes[i], &entry, wanted, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            name_hashes[i] = name_hash;
            return (uint32_t)i + 1;
        }
        // The library was unloaded. Now it, or another library with the same class, is loaded at this address.
        if (entry == (wanted | MAYBE_UNLOADED) && name_hashes[i] == name_hash) zg_store(&zg_classes[i], entry = wanted);
        if (entry == wanted) return (uint32_t)i + 1;
    }
    return 0; // all probed entries are taken: treat the object as a plain block
}

static uint64_t read_bytes(const struct zg_space *space, void *to, uint64_t address, uint64_t count) {
    return space->read(space->context, to, address, count);
}

static bool read_words(const struct zg_space *space, uint64_t address, uint64_t *words, uint64_t count) {
    return read_bytes(space, words, address, count * sizeof *words) == count * sizeof *words;
}

static bool is_printable(const struct zg_space *space, uint64_t address) {
    char name[4];
    uint64_t count = read_bytes(space, name, address, sizeof name);
    if (!count || !name[0]) return false;
    for (uint64_t i = 0; i < count && name[i]; i++)
        if ((uint8_t)name[i] < 0x21 || name[i] == 0x7f) return false;
    return true;
}

// Checks Swift class metadata. Layout: TargetClassMetadata, and the heap metadata kinds of the Swift runtime
// (ABI/MetadataKind.def).
bool zg_class_is_swift(const struct zg_space *space, uint64_t metadata) {
    struct {
        uint64_t destroy, values, kind, superclass;
        uint32_t flags, instance_address_point, instance_size;
        uint16_t alignment_mask, reserved;
        uint32_t class_size, class_address_point;
        uint64_t descriptor;
    } class;
    if (!zg_class_may_be_pointer(metadata)) return false;
    uint64_t got = read_bytes(space, &class, metadata - 16, sizeof class);
    if (got < 3 * sizeof(uint64_t) || !space->is_code(space->context, class.destroy)) return false;
    // Heap objects that are no class instances: closure contexts, boxes, boxed errors, tasks. The metadata of contexts
    // and boxes holds the offset of their contents.
    if ((class.kind == 0x400 || class.kind == 0x500) &&
        (got < 4 * sizeof(uint64_t) || (uint32_t) class.superclass < 16 || (uint32_t) class.superclass >= 65536))
        return false;
    if (class.kind == 0x400 || class.kind == 0x500 || class.kind == 0x501 || class.kind == 0x502) return true;
    if (class.kind != 0 || got < sizeof class) return false;
    if (class.instance_size < 16 || class.alignment_mask & (class.alignment_mask + 1) ||
        class.class_address_point < 16 || class.class_size < class.class_address_point)
        return false;
    struct {
        uint32_t flags;
        int32_t parent, name;
    } descriptor;
    if (!zg_class_may_be_pointer(class.descriptor & ~UINT64_C(7))) return false;
    if (read_bytes(space, &descriptor, class.descriptor, sizeof descriptor) != sizeof descriptor) return false;
    if ((descriptor.flags & 0x1f) != 16) return false;
    return is_printable(space, class.descriptor + 8 + (uint64_t)(int64_t)descriptor.name);
}

// Returns the type information of a C++ virtual table, or 0 if the address is not a virtual table. Itanium C++ ABI
// 2.5.2 and 2.9: offset to top and type information are in front of the functions. Type information begins with a
// virtual table pointer and the name; this virtual table belongs to a class in namespace __cxxabiv1.
static uint64_t cxx_type(const struct zg_space *space, uint64_t table) {
    uint64_t head[2], type[2], meta[2], meta_type[2];
    char name[16];
    if (!space->is_image(space->context, table) || !read_words(space, table - 16, head, 2)) return 0;
    if (head[0] != 0 || !zg_class_may_be_pointer(head[1]) || !read_words(space, head[1], type, 2)) return 0;
    if (!zg_class_may_be_pointer(type[0]) || !read_words(space, type[0] - 16, meta, 2)) return 0;
    if (!zg_class_may_be_pointer(meta[1]) || !read_words(space, meta[1], meta_type, 2)) return 0;
    static const char expected[] = "N10__cxxabiv1";
    if (read_bytes(space, name, meta_type[1], sizeof name) < sizeof expected - 1) return 0;
    for (uint64_t i = 0; i < sizeof expected - 1; i++)
        if (name[i] != expected[i]) return 0;
    return head[1];
}

bool zg_class_cxx_name(const struct zg_space *space, uint64_t table, char *name, uint64_t capacity) {
    uint64_t type = cxx_type(space, table), words[2];
    if (!type || !read_words(space, type, words, 2)) return false;
    uint64_t got = read_bytes(space, name, words[1], capacity - 1);
    // The name may end just before the end of the image's last page: retry with fewer bytes.
    for (uint64_t less = 1; !got && less < capacity; less *= 2)
        got = read_bytes(space, name, words[1], capacity / (2 * less));
    name[got] = 0;
    uint64_t skipped = name[0] == '*'; // marks a name that is local to its image
    if (skipped) zg_string_copy(name, name + 1, capacity);
    return name[0] != 0;
}

static uint32_t swift_layout;

// Whether the pointer may be Swift metadata. In programs without Swift, most words that look like metadata point to the
// start of a block: nodes of linked structures. Metadata allocated at run time also lies in a block, but its address
// point is behind the block's first words. Does not read the block, because the program may have protected its page,
// and the thread may block signals.
static bool may_be_swift_metadata(uint64_t metadata) {
    uint64_t index, interior;
    if (!zg_slab_contains(metadata)) return true;
    struct zg_slab *slab = zg_slab_find(metadata, &index, &interior);
    return interior >= 16 && index < __atomic_load_n(&slab->used, __ATOMIC_RELAXED);
}

static void forget(enum zg_language language) {
    for (uint64_t i = 0; zg_classes && i < ZG_CLASSES_ALL; i++) {
        uint64_t entry = zg_load(&zg_classes[i]);
        if ((entry & LANGUAGE_BITS) == language && !(entry & MAYBE_UNLOADED))
            zg_store(&zg_classes[i], entry | MAYBE_UNLOADED);
    }
}

void zg_class_set_swift_layout(enum zg_swift_layout layout) {
    __atomic_store_n(&swift_layout, layout, __ATOMIC_RELEASE);
    if (layout == zg_swift_unexpected) forget(zg_language_swift);
}

// The layout check runs when the thread leaves the runtime, after the first objects were recognized. If the check
// fails, their classes are forgotten.
static bool is_swift(uint64_t metadata) {
    enum zg_swift_layout layout = (enum zg_swift_layout)__atomic_load_n(&swift_layout, __ATOMIC_ACQUIRE);
    if (layout == zg_swift_unexpected || !may_be_swift_metadata(metadata) ||
        !zg_class_is_swift(&zg_space_own, metadata))
        return false;
    struct zg_thread *thread = zg_thread_current_or_null();
    if (layout == zg_swift_unchecked && thread) zg_thread_request_deferred(thread, zg_deferred_swift_check);
    return true;
}

static ZG_COLD uint32_t validate(uint64_t pointer, enum zg_language language) {
    bool is_class = false;
    uint32_t name_hash = 0;
    __atomic_store_n(&is_used, true, __ATOMIC_RELAXED);
    if (language == zg_language_swift) {
        is_class = is_swift(pointer);
    } else {
        char name[256];
        is_class = !zg_lookup_is_in_heap(pointer) && zg_class_cxx_name(&zg_space_own, pointer, name, sizeof name);
        for (uint64_t i = 0; is_class && name[i]; i++) name_hash = name_hash * 33 + (uint8_t)name[i];
    }
    if (is_class && !zg_slab_need_deaths()) return 0;
    uint32_t number = is_class ? add(pointer, language, name_hash) : 0;
    if (number) return number;
    zg_store(&non_classes[(pointer >> 3) % STRANGERS], pointer | language);
    return 0;
}

uint32_t zg_class_number(uint64_t pointer, enum zg_language language) {
    uint32_t number = find(pointer);
    if (ZG_LIKELY(number)) return (zg_classes[number - 1] & LANGUAGE_BITS) == language ? number : 0;
    if (zg_load(&non_classes[(pointer >> 3) % STRANGERS]) == (pointer | language)) return 0;
    return validate(pointer, language);
}

struct zg_class zg_class_get(uint32_t number) {
    uint64_t entry = number && number <= ZG_CLASSES + ZG_CLASS_PROBES ? zg_load(&zg_classes[number - 1]) : 0;
    if (!entry || entry & MAYBE_UNLOADED) return (struct zg_class){zg_language_unknown, 0};
    return (struct zg_class){(enum zg_language)(entry & LANGUAGE_BITS), entry & ~UINT64_C(7)};
}

void zg_classes_forget_cxx(void) {
    if (!__atomic_load_n(&is_used, __ATOMIC_RELAXED)) return;
    forget(zg_language_cxx);
    for (uint64_t i = 0; i < STRANGERS; i++) zg_store(&non_classes[i], 0);
}

// Type information and offset to top are in front of the functions. Offsets of virtual bases are in front of these two.
const char *zg_class_cxx_access(int64_t offset) {
    return offset >= 0 ? ZG_ACCESS(call) : offset >= -16 ? ZG_ACCESS(cast) : ZG_ACCESS(read);
}
