// Defines _dl_find_object, which glibc has since 2.35 only: it finds the unwind table of a code address for libgcc's
// unwinder, which is linked into zguard. No state; called while an exception is thrown or a stack is taken, in any
// thread.

#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// libc's struct dl_find_object (dlfcn.h), which older headers do not declare. The unwinder reads the first five
// members.
struct found_image {
    unsigned long long flags;
    void *start, *end;
    struct link_map *map;
    void *unwind_table;
    unsigned long long reserved[7];
};

// The name differs from libc's in C, because headers since 2.35 declare it with their own struct.
__attribute__((visibility("hidden"))) int find_image(void *code, struct found_image *found) __asm__("_dl_find_object");

struct search {
    uintptr_t code;
    struct found_image *found;
};

static int match(struct dl_phdr_info *image, size_t bytes, void *context) {
    (void)bytes;
    struct search *search = context;
    uintptr_t start = UINTPTR_MAX, end = 0, table = 0;
    bool has_code = false;
    for (int i = 0; i < image->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &image->dlpi_phdr[i];
        uintptr_t from = image->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
        if (segment->p_type == PT_GNU_EH_FRAME) table = from;
        if (segment->p_type != PT_LOAD) continue;
        if (from < start) start = from;
        if (to > end) end = to;
        if (search->code >= from && search->code < to) has_code = true;
    }
    if (!has_code || !table) return has_code ? -1 : 0;
    search->found->start = (void *)start;
    search->found->end = (void *)end;
    search->found->unwind_table = (void *)table;
    return 1;
}

// Returns 0, or -1 if no image with an unwind table has the address. Fills in the bounds and the table only.
int find_image(void *code, struct found_image *found) {
    struct search search = {(uintptr_t)code, found};
    return dl_iterate_phdr(match, &search) == 1 ? 0 : -1;
}
