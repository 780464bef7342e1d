// Telling libc's blocks from invalid pointers, by the layout of glibc's chunks (malloc/malloc.c, "malloc_chunk"; stable
// since glibc 2.3): the word before a block holds its size and three flags.
// Slow path; no lock.

#define _GNU_SOURCE
#include "heap/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/auxv.h>

#include "images/module.h"
#include "platform/os.h"
#include "platform/text.h"
#include "threads/thread.h"
#include "settings/stats.h"

extern void *__libc_stack_end;
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { CHUNK_MMAPPED = 2, CHUNK_NON_MAIN_ARENA = 4, CHUNK_FLAGS = 7 };
#define ARENA_BYTES (UINT64_C(64) << 20)

static uint64_t break_start;
static struct {
    bool looked;
    void (*free)(void *);
    void *(*realloc)(void *, size_t);
    size_t (*usable_size)(void *);
} next;

struct zg_next zg_next = {__libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign, __libc_free, NULL};

void zg_foreign_init(void) { break_start = zg_os_break(); }
void zg_foreign_prepare(void) { __libc_free(__libc_malloc(1)); }

// The allocator behind us in the search order, where it is not libc's. (Other allocators publish __libc_free and its kin, too:
// what is libc is told by another function.)
static void look_up_next(void) {
    if (next.looked) return;
    next.usable_size = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    void *found = dlsym(RTLD_NEXT, "free");
    struct zg_module theirs, libc;
    if (found && zg_module_find((uint64_t)found, &theirs) && zg_module_find((uint64_t)gnu_get_libc_version, &libc) &&
        theirs.start != libc.start) {
        next.free = (void (*)(void *))found;
        next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
        zg_stats_degrade(zg_degradation_other_allocator);
    }
    next.looked = true;
}

// An executable that is not position-independent and takes a function's address has an entry of its procedure linkage table for it,
// at which everybody finds the function: its symbol is undefined all the same.
static bool is_defined_at(void *function) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    return dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol && info.dli_saddr == function &&
           symbol->st_shndx != SHN_UNDEF;
}

void zg_foreign_look(void) {
    look_up_next();
    void *first = dlsym(RTLD_DEFAULT, "malloc");
    struct zg_module ours, libc, module;
    if (!zg_module_find((uint64_t)zg_foreign_look, &ours) || !zg_module_find((uint64_t)gnu_get_libc_version, &libc))
        return;
    bool in_front = first && is_defined_at(first) && zg_module_find((uint64_t)first, &module) &&
                    module.start != ours.start && module.start != libc.start;
    if (in_front) zg_stats_degrade(zg_degradation_allocator_in_front);
    else if (!next.free || !zg_module_find((uint64_t)next.free, &module)) return;
    zg_string_copy(zg_stats->allocator, module.path, sizeof zg_stats->allocator);
    if (!in_front) return;
    char message[sizeof zg_stats->allocator + 128];
    struct zg_text text;
    zg_text_init(&text, message, sizeof message);
    zg_text_string(&text, "zguard: warning: malloc is that of '");
    zg_text_string(&text, zg_stats->allocator);
    zg_text_string(&text, "', in front of ours: its blocks are not guarded\n");
    zg_os_write(2, message, text.count);
}

bool zg_foreign_find_next(void) {
    look_up_next();
    zg_next.usable_size = next.usable_size;
    if (!next.free) return next.usable_size != NULL;
    struct zg_next other = {(void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"),
                            (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc"),
                            next.realloc,
                            (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign"),
                            next.free,
                            next.usable_size};
    if (!other.memalign) other.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    if (!other.malloc || !other.calloc || !other.realloc || !other.memalign || !other.usable_size) return false;
    if (zg_stats_get(zg_counter_unguarded_allocations)) return false;
    zg_next = other;
    return true;
}

// Until another allocator is passed blocks on, libc serves; then whoever is asked to free them.
void *zg_foreign_allocate(uint64_t size, uint64_t alignment, bool zero) {
    zg_stats_add(zg_counter_unguarded_allocations, 1);
    if (alignment <= 16) return zero ? zg_next.calloc(1, size) : zg_next.malloc(size);
    void *block = zg_next.memalign(alignment, size);
    if (block && zero) __builtin_memset(block, 0, size);
    return block;
}

// False where nothing is mapped. `*refused`: the memory could not be looked at, which says nothing about it.
static bool read_words(uint64_t *words, uint64_t address, uint64_t bytes, bool *refused) {
    int64_t result = zg_os_try_read_memory(words, address, bytes);
    *refused = *refused || (result != (int64_t)bytes && result != -EFAULT);
    return result == (int64_t)bytes;
}

// Without `*refused` the answer is certain.
static bool looks_like_libcs(uint64_t address, bool *refused) {
    uint64_t chunk[2]; // size of the previous chunk or, for a mapping of its own, its lead; size and flags
    if (address & 15 || !read_words(chunk, address - 16, sizeof chunk, refused)) return false;
    uint64_t size = chunk[1] & ~(uint64_t)CHUNK_FLAGS;
    if (size < 32 || size & 15) return false;
    if (chunk[1] & CHUNK_MMAPPED)
        return ((address - 16 - chunk[0]) & (ZG_PAGE_BYTES - 1)) == 0 && ((chunk[0] + size) & (ZG_PAGE_BYTES - 1)) == 0;
    if (chunk[1] & CHUNK_NON_MAIN_ARENA) {
        uint64_t heap[3], start = address & ~(ARENA_BYTES - 1), arena; // arena, previous heap, size
        if (!read_words(heap, start, sizeof heap, refused)) return false;
        return heap[0] && !(heap[0] & 7) && heap[2] <= ARENA_BYTES && address + size - 16 <= start + heap[2] &&
               read_words(&arena, heap[0], sizeof arena, refused);
    }
    if (address >= break_start && address - 16 + size <= zg_os_break()) return true;
    // Where the break cannot move libc's main heap goes on elsewhere: the chunk behind must know that this one is in use.
    uint64_t behind[2];
    return read_words(behind, address - 16 + size, sizeof behind, refused) && (behind[1] & 1) && !(behind[1] & 8) &&
           behind[1] >> 48 == 0;
}

// Where memory cannot be looked at, as where a filter refuses it, nothing is known: libc, which served what the heap could not,
// looks at the pointer itself.
static bool made_by_libc(uint64_t address) {
    bool refused = false;
    return looks_like_libcs(address, &refused) || refused;
}

enum zg_foreign_owner zg_foreign_owner(uint64_t address) {
    struct zg_module module;
    struct zg_stack_bounds stack = zg_thread_stack_bounds();
    if (address >= stack.low && address < stack.high) return zg_foreign_nobody;
    if (zg_module_find_unwind(address, &module)) return zg_foreign_nobody;
    if (made_by_libc(address)) return zg_foreign_libc;
    look_up_next();
    return next.free ? zg_foreign_other : zg_foreign_nobody;
}

void zg_foreign_free(void *address, enum zg_foreign_owner owner) {
    zg_stats_add(zg_counter_foreign_frees, 1);
    if (owner == zg_foreign_other) next.free(address);
    else __libc_free(address);
}

void *zg_foreign_reallocate(void *address, uint64_t size, enum zg_foreign_owner owner) {
    zg_stats_add(zg_counter_foreign_frees, 1);
    if (owner == zg_foreign_other && next.realloc) return next.realloc(address, size);
    return __libc_realloc(address, size);
}

uint64_t zg_foreign_usable_size(void *address, enum zg_foreign_owner owner) {
    look_up_next();
    if (owner == zg_foreign_nobody || !next.usable_size) return 0;
    return next.usable_size(address);
}

// The kernel puts arguments and environment above the main thread's first frame, the program's name last.
static bool is_argument(uint64_t address) {
    uint64_t last = getauxval(AT_EXECFN);
    return last && address >= (uint64_t)__libc_stack_end && address <= last + zg_string_length((const char *)last);
}

const char *zg_foreign_describe(uint64_t address) {
    struct zg_module module;
    struct zg_stack_bounds stack = zg_thread_stack_bounds();
    if ((address >= stack.low && address < stack.high) || is_argument(address)) return "stack address";
    if (zg_module_find_unwind(address, &module)) return "global variable";
    return address & 15 ? "misaligned" : "never allocated";
}
