// Finds images in the dynamic linker's list of loaded images, and keeps a table of images found before. The table has
// two copies, each a seqlock: readers use one copy while the other is rewritten, and notice if their copy was rewritten
// meanwhile. Only one writer runs at a time. A second writer, or a signal handler that interrupted the writer, walks
// the list and leaves the table alone. No lock.

#include "images/chain.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "images/module.h"
#include "platform/os.h"

// Images beyond MOST_IMAGES are found by walking the list. No program loads MOST_LISTED images: a longer list is
// corrupt.
enum { MOST_IMAGES = 768, MOST_LISTED = 16384, TRIES = 4, HEADERS_AT_ONCE = 4 };

// The start of struct link_map, which link.h publishes for debuggers.
struct listed {
    uint64_t bias, name, dynamic, next, before;
};

struct image {
    uint64_t bias, unwind, name, dynamic;
    uint64_t map; // address of the struct link_map
    // Address of the ELF header; for the program's executable, address of its program headers.
    uint64_t header;
    // Address of the image's program header PT_GNU_EH_FRAME, which gives `unwind`; 0 if the image has no such header.
    uint64_t unwind_entry;
    // Fingerprint of all data that is read again to recognize the image.
    uint64_t fingerprint;
    // Largest gap between two segments. Other mappings may lie there: arm64 aligns segments to 64 KiB.
    uint64_t hole[2];
};
enum { IMAGE_WORDS = sizeof(struct image) / 8 };

struct table {
    uint32_t sequence; // odd while the copy is written
    uint32_t count;
    // The list's last element when the table was made, the element before it, and the fingerprint by
    // fingerprint_of_last. `last` is 0 if the table is incomplete.
    uint64_t last, before_last, last_print;
    uint64_t ranges[MOST_IMAGES][2]; // start and end of each image
    uint64_t images[MOST_IMAGES][IMAGE_WORDS];
};

static struct table tables[2];
static uint32_t current; // index of the copy that readers use
static uint32_t writing;
static const struct r_debug *list;

// --- reading ---------------------------------------------------------------------------------------------------------

// Returns false if memory is unreadable. Sets `*refused` if the system call itself was refused (seccomp).
static bool read_all(void *to, uint64_t from, uint64_t bytes, bool *refused) {
    int64_t result = zg_os_try_read_memory(to, from, bytes);
    *refused = *refused || (result < 0 && result != -EFAULT);
    return result == (int64_t)bytes;
}

static uint64_t hash(uint64_t fingerprint, const void *bytes, uint64_t count) {
    const uint64_t *words = bytes;
    for (uint64_t i = 0; i < count / 8; i++) {
        fingerprint = (fingerprint ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        fingerprint ^= fingerprint >> 29;
    }
    return fingerprint;
}

// Contents of the fingerprint: the list element, the ELF header, the program header of .eh_frame_hdr, and that section
// up to its first table entry, which gives the start of the first function. If all these data are unchanged at the same
// addresses, the image is still the same.
struct fingerprint_input {
    uint64_t bias, name, dynamic;
    ElfW(Ehdr) header;
    ElfW(Phdr) unwind_entry;
    uint64_t unwind[3];
};

static bool compute_fingerprint(const struct image *image, uint64_t *fingerprint, bool *refused) {
    struct fingerprint_input now;
    _Static_assert(sizeof now % 8 == 0, "hashed by words");
    struct zg_os_piece pieces[ZG_OS_PIECES] = {{image->map, 24}, {image->header, sizeof now.header}};
    int count = 2;
    uint64_t bytes = offsetof(struct fingerprint_input, unwind_entry);
    if (image->unwind_entry) {
        pieces[count++] = (struct zg_os_piece){image->unwind_entry, sizeof now.unwind_entry};
        pieces[count++] = (struct zg_os_piece){image->unwind, sizeof now.unwind};
        bytes = sizeof now;
    }
    int64_t result = zg_os_try_read_pieces(&now, pieces, count);
    *refused = *refused || (result < 0 && result != -EFAULT);
    if (result != (int64_t)bytes) return false;
    *fingerprint = hash(image->header, &now, bytes);
    return now.bias == image->bias && now.dynamic == image->dynamic && now.name == image->name;
}

// Reads range, gap and unwind table of the image from its program headers. Returns false if the headers are unreadable
// or do not match the list element.
static bool read_headers(struct image *image, uint64_t headers, uint32_t count, uint64_t range[2], bool *refused) {
    ElfW(Phdr) part[HEADERS_AT_ONCE];
    bool has_dynamic = false;
    uint64_t end = 0; // end of the previous segment: segments are sorted by address
    range[0] = UINT64_MAX, range[1] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = headers + i * sizeof *part, left = zg_min(count - i, HEADERS_AT_ONCE);
        if (i % HEADERS_AT_ONCE == 0 && !read_all(part, at, left * sizeof *part, refused)) return false;
        const ElfW(Phdr) *entry = &part[i % HEADERS_AT_ONCE];
        uint64_t address = image->bias + entry->p_vaddr;
        if (entry->p_type == PT_DYNAMIC) has_dynamic = address == image->dynamic;
        if (entry->p_type == PT_GNU_EH_FRAME) image->unwind = address, image->unwind_entry = at;
        if (entry->p_type != PT_LOAD) continue;
        uint64_t start = address & ~(uint64_t)(ZG_PAGE_BYTES - 1);
        if (end && start > end && start - end > image->hole[1] - image->hole[0])
            image->hole[0] = end, image->hole[1] = start;
        end = (address + entry->p_memsz + ZG_PAGE_BYTES - 1) & ~(uint64_t)(ZG_PAGE_BYTES - 1);
        range[0] = zg_min(range[0], address);
        range[1] = zg_max(range[1], address + entry->p_memsz);
    }
    return has_dynamic && image->header >= range[0] && image->header < range[1];
}

// Reads the image of a list element. The kernel gives the address of the program's own headers (AT_PHDR). A library's
// ELF header is expected at its load bias: returns false for a library that was linked for another base address.
static bool read_image(uint64_t map, const struct listed *listed, struct image *image, uint64_t range[2],
                       bool *refused) {
    *image = (struct image){.bias = listed->bias, .name = listed->name, .dynamic = listed->dynamic, .map = map};
    if (map == (uint64_t)list->r_map) {
        image->header = getauxval(AT_PHDR);
        if (!read_headers(image, getauxval(AT_PHDR), (uint32_t)getauxval(AT_PHNUM), range, refused)) return false;
    } else {
        ElfW(Ehdr) header;
        image->header = listed->bias;
        if (!read_all(&header, listed->bias, sizeof header, refused) ||
            __builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_phentsize != sizeof(ElfW(Phdr)))
            return false;
        if (!read_headers(image, listed->bias + header.e_phoff, header.e_phnum, range, refused)) return false;
    }
    return compute_fingerprint(image, &image->fingerprint, refused);
}

// --- the table -------------------------------------------------------------------------------------------------------

static void copy_words(uint64_t *to, const uint64_t *from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static uint64_t word(const uint64_t *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

// Returns the current copy, or NULL if it is being written. Data read from the copy are valid only if was_consistent()
// returns true afterwards.
static const struct table *begin_reading(uint32_t *sequence) {
    const struct table *table = &tables[__atomic_load_n(&current, __ATOMIC_ACQUIRE)];
    *sequence = __atomic_load_n(&table->sequence, __ATOMIC_ACQUIRE);
    return *sequence & 1 ? NULL : table;
}

static bool was_consistent(const struct table *table, uint32_t sequence) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&table->sequence, __ATOMIC_RELAXED) == sequence;
}

static bool is_hole(const struct image *image, uint64_t address) {
    return address >= image->hole[0] && address < image->hole[1];
}

struct look {
    bool is_listed; // `image` and `range` come from the table
    uint64_t last, before_last, last_print;
    struct image image;
    uint64_t range[2];
};

static bool look_up(uint64_t address, struct look *look) {
    uint32_t sequence;
    const struct table *table = begin_reading(&sequence);
    if (!table) return false;
    uint32_t count = __atomic_load_n(&table->count, __ATOMIC_RELAXED);
    look->is_listed = false;
    look->last = word(&table->last);
    look->before_last = word(&table->before_last);
    look->last_print = word(&table->last_print);
    for (uint32_t i = 0; i < count && i < MOST_IMAGES; i++) {
        look->range[0] = word(&table->ranges[i][0]);
        look->range[1] = word(&table->ranges[i][1]);
        if (address < look->range[0] || address >= look->range[1]) continue;
        copy_words((uint64_t *)&look->image, table->images[i], IMAGE_WORDS);
        look->is_listed = !is_hole(&look->image, address);
        if (look->is_listed) break;
    }
    return was_consistent(table, sequence);
}

// Returns true if the table has an image for list element `map`, and this image is unchanged. Called by the writer
// only. The search starts at index `at`, because most elements keep their place in the list.
static bool is_known(const struct table *table, uint64_t map, uint32_t at, struct image *image, uint64_t range[2],
                     bool *refused) {
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t place = (at + i) % table->count;
        uint64_t fingerprint;
        __builtin_memcpy(image, table->images[place], sizeof *image);
        __builtin_memcpy(range, table->ranges[place], sizeof table->ranges[place]);
        if (image->map == map)
            return compute_fingerprint(image, &fingerprint, refused) && fingerprint == image->fingerprint;
    }
    return false;
}

static void begin_writing(struct table *table) {
    __atomic_store_n(&table->sequence, table->sequence | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&table->count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&table->last, 0, __ATOMIC_RELAXED);
}

static void add(struct table *table, const struct image *image, const uint64_t range[2]) {
    if (table->count == MOST_IMAGES) return;
    copy_words(table->ranges[table->count], range, 2);
    copy_words(table->images[table->count], (const uint64_t *)image, IMAGE_WORDS);
    __atomic_store_n(&table->count, table->count + 1, __ATOMIC_RELAXED);
}

static void finish_writing(struct table *table, uint64_t last, uint64_t before_last, uint64_t last_print) {
    __atomic_store_n(&table->last, last, __ATOMIC_RELAXED);
    __atomic_store_n(&table->before_last, before_last, __ATOMIC_RELAXED);
    __atomic_store_n(&table->last_print, last_print, __ATOMIC_RELAXED);
    __atomic_store_n(&table->sequence, table->sequence + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&current, (uint32_t)(table - tables), __ATOMIC_RELEASE);
}

// --- the list --------------------------------------------------------------------------------------------------------

// Computes the fingerprint of the list's last element. Returns false if the element is unreadable or not the last one.
// An unlinked element may keep its contents, so returns false also if the element in front does not link to this one.
static bool fingerprint_of_last(uint64_t last, uint64_t before, uint64_t *fingerprint, bool *refused) {
    struct {
        struct listed listed;
        uint64_t next_of_before;
    } now = {.next_of_before = last};
    struct zg_os_piece pieces[ZG_OS_PIECES] = {{last, sizeof now.listed}, {before + offsetof(struct listed, next), 8}};
    uint64_t bytes = before ? sizeof now : sizeof now.listed;
    int64_t result = zg_os_try_read_pieces(&now, pieces, before ? 2 : 1);
    *refused = *refused || (result < 0 && result != -EFAULT);
    *fingerprint = hash(0, &now, sizeof now);
    return result == (int64_t)bytes && !now.listed.next && now.listed.before == before && now.next_of_before == last;
}

struct search {
    uint64_t address;
    // `all_understood`: every image of the list could be read and parsed.
    bool is_found, all_understood, refused;
    struct image image;
    uint64_t range[2];
};

// Walks the list from its first element. Each element contains its predecessor's address, so a concurrent change of the
// list is noticed. If `table` is not NULL, rewrites it; images that are unchanged since `old` was written are copied
// from there. Returns false if the list is unreadable, corrupt or changed.
static bool walk_list(struct search *search, struct table *table, const struct table *old) {
    struct listed listed;
    uint64_t before = 0, before_last = 0, count = 0, fingerprint = 0;
    search->is_found = false;
    search->all_understood = true;
    if (table) begin_writing(table);
    for (uint64_t map = (uint64_t)__atomic_load_n(&list->r_map, __ATOMIC_ACQUIRE); map; map = listed.next) {
        if (!read_all(&listed, map, sizeof listed, &search->refused) || listed.before != before ||
            ++count > MOST_LISTED)
            return false;
        struct image image;
        uint64_t range[2];
        bool is_new = !table || !is_known(old, map, table->count, &image, range, &search->refused);
        bool is_understood = !is_new || read_image(map, &listed, &image, range, &search->refused);
        search->all_understood = search->all_understood && is_understood;
        if (is_understood && table) add(table, &image, range);
        if (is_understood && search->address >= range[0] && search->address < range[1] &&
            !is_hole(&image, search->address)) {
            search->is_found = true;
            search->image = image;
            search->range[0] = range[0], search->range[1] = range[1];
        }
        before_last = before;
        before = map;
    }
    // `last` becomes 0 if the table lacks an image, or if the end of the list has changed meanwhile. The next lookup of
    // an unknown address then walks the list.
    bool has_all = search->all_understood && count <= MOST_IMAGES &&
                   fingerprint_of_last(before, before_last, &fingerprint, &search->refused);
    if (table) finish_writing(table, has_all ? before : 0, before_last, fingerprint);
    return true;
}

static bool search_list(struct search *search) {
    bool done = false;
    bool is_writer = !__atomic_exchange_n(&writing, 1, __ATOMIC_ACQUIRE);
    for (int i = 0; i < TRIES && !done && !search->refused; i++) {
        const struct table *old = &tables[current];
        done = walk_list(search, is_writer ? &tables[!current] : NULL, old);
    }
    if (is_writer) __atomic_store_n(&writing, 0, __ATOMIC_RELEASE);
    return done;
}

// Returns true if no image was added since the table was made: the table's last element is still the last of the list.
static bool is_last(const struct look *look, bool *refused) {
    uint64_t fingerprint;
    return look->last && fingerprint_of_last(look->last, look->before_last, &fingerprint, refused) &&
           fingerprint == look->last_print;
}

static enum zg_chain_answer fill_module(const struct image *image, const uint64_t range[2], struct zg_module *module) {
    *module = (struct zg_module){.start = range[0],
                                 .end = range[1],
                                 .bias = image->bias,
                                 .eh_frame_hdr = (const uint8_t *)image->unwind,
                                 .path = (const char *)image->name};
    return zg_chain_found;
}

enum zg_chain_answer zg_chain_find(uint64_t address, struct zg_module *module) {
    struct look look;
    bool refused = false;
    if (!list) return zg_chain_unknown;
    if (look_up(address, &look)) {
        uint64_t fingerprint;
        if (look.is_listed && compute_fingerprint(&look.image, &fingerprint, &refused) &&
            fingerprint == look.image.fingerprint)
            return fill_module(&look.image, look.range, module);
        if (!look.is_listed && is_last(&look, &refused)) return zg_chain_none;
    }
    struct search search = {.address = address, .refused = refused};
    if (!search_list(&search)) return search.refused ? zg_chain_unknown : zg_chain_none;
    if (search.is_found) {
        // The image may have been unloaded since its list element was read.
        uint64_t fingerprint;
        if (!compute_fingerprint(&search.image, &fingerprint, &search.refused))
            return search.refused ? zg_chain_unknown : zg_chain_none;
        if (fingerprint != search.image.fingerprint) return zg_chain_none;
        return fill_module(&search.image, search.range, module);
    }
    return search.all_understood && !search.refused ? zg_chain_none : zg_chain_unknown;
}

// --- start, fork -----------------------------------------------------------------------------------------------------

void zg_chain_init(void) {
    const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
    uint64_t count = getauxval(AT_PHNUM), bias = 0;
    const ElfW(Dyn) *entry = NULL;
    if (!headers || !zg_os_can_read_memory()) return;
    for (uint64_t i = 0; i < count; i++)
        if (headers[i].p_type == PT_PHDR) bias = (uint64_t)headers - headers[i].p_vaddr;
    for (uint64_t i = 0; i < count; i++)
        if (headers[i].p_type == PT_DYNAMIC) entry = (const void *)(bias + headers[i].p_vaddr);
    // DT_DEBUG: the dynamic linker has stored the address of struct r_debug there, for debuggers.
    for (; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG) list = (const struct r_debug *)entry->d_un.d_ptr;
    if (list && !list->r_map) list = NULL;
}

void zg_chain_after_fork_in_child(void) { __atomic_store_n(&writing, 0, __ATOMIC_RELEASE); }
