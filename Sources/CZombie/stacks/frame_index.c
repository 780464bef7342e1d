// Makes the sorted table of .eh_frame_hdr from .eh_frame (LSB, "Exception Frames"). Cold; start-up only.
// The table lies directly in front of the image, because its entries are 32-bit distances.

#include "stacks/frame_index.h"

#include <elf.h>
#include <link.h>

#include "images/module.h"
#include "platform/os.h"
#include "stacks/unwind_cfi.h"

struct entry {
    int32_t start, frame; // distances of the function and of its frame description from the table
};

// The section .eh_frame_hdr: version 1, no pointer to .eh_frame, a count of 4 bytes, and the sorted table.
struct index {
    uint8_t version, frames_encoding, count_encoding, table_encoding;
    uint32_t count;
    struct entry entries[];
};

enum { OMITTED = 0xff, UNSIGNED_4 = 0x03, RELATIVE_SIGNED_4 = 0x3b };

struct range {
    const uint8_t *start, *end;
};

// Calls `take` for each frame description. A length of 0 ends the section.
static void for_each(struct range frames, struct index *index, void (*take)(struct index *, const uint8_t *)) {
    enum { LONG = 0xffffffffu };
    for (const uint8_t *at = frames.start; at + 8 <= frames.end;) {
        uint32_t bytes, back;
        __builtin_memcpy(&bytes, at, sizeof bytes);
        __builtin_memcpy(&back, at + sizeof bytes, sizeof back);
        if (!bytes || bytes == (uint32_t)LONG || bytes > (uint64_t)(frames.end - at) - sizeof bytes) return;
        if (back) take(index, at);
        at += sizeof bytes + bytes;
    }
}

static void count(struct index *index, const uint8_t *frame) {
    (void)frame;
    index->count++;
}

static void add(struct index *index, const uint8_t *frame) {
    uint64_t start = zg_cfi_start_of(frame);
    if (!start) return;
    index->entries[index->count++] =
        (struct entry){(int32_t)(start - (uint64_t)index), (int32_t)((uint64_t)frame - (uint64_t)index)};
}

// Shell's sort with Ciura's gaps (2001), because the entries are nearly in order.
static void sort(struct index *index) {
    static const uint32_t gaps[] = {57158, 25403, 11290, 5018, 2230, 991, 441, 196, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < ZG_ARRAY_COUNT(gaps); g++)
        for (uint32_t i = gaps[g]; i < index->count; i++) {
            struct entry moved = index->entries[i];
            uint32_t at = i;
            for (; at >= gaps[g] && index->entries[at - gaps[g]].start > moved.start; at -= gaps[g])
                index->entries[at] = index->entries[at - gaps[g]];
            index->entries[at] = moved;
        }
}

static bool read_all(int file, void *bytes, uint64_t count, uint64_t at) {
    return zg_os_read_at(file, bytes, count, at) == (int64_t)count;
}

static struct range find_frames(int file, uint64_t bias) {
    ElfW(Ehdr) header;
    ElfW(Shdr) names, section;
    char name[sizeof ".eh_frame"];
    if (!read_all(file, &header, sizeof header, 0) || header.e_shentsize != sizeof section ||
        !read_all(file, &names, sizeof names, header.e_shoff + header.e_shstrndx * sizeof section))
        return (struct range){NULL, NULL};
    for (uint64_t i = 0; i < header.e_shnum; i++) {
        if (!read_all(file, &section, sizeof section, header.e_shoff + i * sizeof section)) break;
        if (!(section.sh_flags & SHF_ALLOC) || !read_all(file, name, sizeof name, names.sh_offset + section.sh_name) ||
            __builtin_memcmp(name, ".eh_frame", sizeof name) != 0)
            continue;
        const uint8_t *start = (const uint8_t *)(bias + section.sh_addr);
        return (struct range){start, start + section.sh_size};
    }
    return (struct range){NULL, NULL};
}

void zg_frame_index_make(void) {
    struct zg_module module;
    struct index counted = {.count = 0};
    if (!zg_module_find_unwind((uint64_t)zg_frame_index_make, &module) || module.eh_frame_hdr) return;
    int file = zg_os_open_system("/proc/self/exe");
    if (file < 0) return;
    struct range frames = find_frames(file, module.bias);
    zg_os_close(file);
    if (!frames.start || (uint64_t)frames.start < module.start || (uint64_t)frames.end > module.end) return;
    for_each(frames, &counted, count);
    uint64_t bytes = zg_round_up(sizeof counted + counted.count * sizeof(struct entry), ZG_PAGE_BYTES);
    struct index *index = zg_os_map_at((void *)((module.start & ~(ZG_PAGE_BYTES - 1)) - bytes), bytes);
    if (!index) return;
    *index = (struct index){1, OMITTED, UNSIGNED_4, RELATIVE_SIGNED_4, .count = 0};
    for_each(frames, index, add);
    sort(index);
    zg_module_set_frames((const uint8_t *)index);
}
