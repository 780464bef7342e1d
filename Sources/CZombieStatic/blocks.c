// Allocates blocks for a static executable when the runtime cannot: while the thread is in the runtime, and when the
// guarded heap is full. Each block has a mapping of its own, so that a nested call needs no lock. A chunk has glibc's
// layout (malloc/malloc.c, "malloc_chunk"), which heap/foreign.c recognizes: the word before the block holds the
// chunk's size and a flag, and the word before that the chunk's offset in its mapping.

#define _GNU_SOURCE
#include "static.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "images/loader.h"
#include "publish.h"
#include "settings/stats.h"

enum { HEADER = 16, MAPPED = 2, FLAGS = 7 };

struct chunk {
    uint64_t offset, size;
};

static struct chunk *chunk_of(void *block) { return (struct chunk *)((char *)block - HEADER); }

void *zg_static_memalign(size_t alignment, size_t bytes) {
    if (alignment < HEADER) alignment = HEADER;
    uint64_t room = bytes < PTRDIFF_MAX / 4 && alignment < PTRDIFF_MAX / 4
                        ? zg_round_up(bytes + alignment + HEADER, ZG_PAGE_BYTES)
                        : 0;
    // No MAP_NORESERVE: the kernel must refuse the same sizes as for libc's malloc.
    char *mapping =
        (char *)ZG_RAW_SYSCALL(SYS_mmap, NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)zg_round_up((uint64_t)mapping + HEADER, alignment);
    uint64_t offset = (uint64_t)(block - HEADER - mapping);
    *chunk_of(block) = (struct chunk){offset, (room - offset) | MAPPED};
    return block;
}

void *zg_static_malloc(size_t bytes) { return zg_static_memalign(HEADER, bytes); }

void *zg_static_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    return zg_static_malloc(bytes);
}

size_t zg_static_usable_size(void *block) { return block ? (chunk_of(block)->size & ~(uint64_t)FLAGS) - HEADER : 0; }

void zg_static_free(void *block) {
    if (!block) return;
    struct chunk chunk = *chunk_of(block);
    uint64_t start = (uint64_t)chunk_of(block) - chunk.offset, bytes = chunk.offset + (chunk.size & ~(uint64_t)FLAGS);
    // Abort on a damaged header, as libc's free does.
    if (!(chunk.size & MAPPED) || (start | bytes) & (ZG_PAGE_BYTES - 1)) abort();
    int saved = errno;
    ZG_RAW_SYSCALL(SYS_munmap, start, bytes, 0, 0, 0, 0);
    errno = saved;
}

void *zg_static_realloc(void *block, size_t bytes) {
    if (block && !bytes && zg_libc_frees_by_realloc) return zg_static_free(block), NULL;
    size_t usable = zg_static_usable_size(block);
    if (block && bytes <= usable) return block;
    void *larger = zg_static_malloc(bytes);
    if (!larger) return NULL;
    if (block) __builtin_memcpy(larger, block, usable);
    zg_static_free(block);
    return larger;
}

// Symbols of the C++ library, weak because the executable may lack them. libstdc++ has all std::__throw functions in
// one object file, which programs without containers lack. A program that catches std::bad_alloc has the other symbols
// (Itanium C++ ABI, 2.4).
extern void (*get_new_handler(void))(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
extern void *__cxa_allocate_exception(size_t bytes) __attribute__((weak));
extern void __cxa_throw(void *thrown, void *type, void (*destroy)(void *)) __attribute__((weak));
extern void destroy_bad_alloc(void *thrown) __asm__("_ZNSt9bad_allocD1Ev") __attribute__((weak));
extern char type_of_bad_alloc[] __asm__("_ZTISt9bad_alloc") __attribute__((weak));
extern void *table_of_bad_alloc[] __asm__("_ZTVSt9bad_alloc") __attribute__((weak));

static void out_of_memory(void) {
    if (throw_bad_alloc) throw_bad_alloc();
    if (__cxa_allocate_exception && __cxa_throw && destroy_bad_alloc && table_of_bad_alloc) {
        void **thrown = __cxa_allocate_exception(sizeof(void *));
        *thrown = table_of_bad_alloc + 2; // behind the offset to the top and the type
        __cxa_throw(thrown, type_of_bad_alloc, destroy_bad_alloc);
    }
    abort();
}

// Does not allocate a guarded block, which would have the family of memalign: its delete would be reported as a
// mismatch. If the program has operators of its own, no mismatch is reported, so a guarded block can be used.
static void *new_or_null(size_t bytes, size_t alignment) {
    bool may_be_guarded = zg_stats_is_degraded(zg_degradation_cxx_operators_replaced);
    for (void *block;;) {
        block = may_be_guarded ? memalign(alignment, bytes) : zg_static_memalign(alignment, bytes);
        if (block) return block;
        void (*handler)(void) = get_new_handler ? get_new_handler() : NULL;
        if (!handler) return NULL;
        handler();
    }
}

void *zg_static_new_aligned(size_t bytes, size_t alignment) {
    void *block = new_or_null(bytes, alignment);
    if (!block) out_of_memory();
    return block;
}

// The program's own operators, if it has any. Their exceptions pass through the nothrow functions: C code cannot catch
// them.
extern void *_Znwm(size_t bytes), *_ZnwmSt11align_val_t(size_t bytes, size_t alignment);

void *zg_static_new_nothrow(size_t bytes) {
    return zg_loader_is_own((const void *)_Znwm) ? new_or_null(bytes, HEADER) : _Znwm(bytes);
}

void *zg_static_new_aligned_nothrow(size_t bytes, size_t alignment) {
    return zg_loader_is_own((const void *)_ZnwmSt11align_val_t) ? new_or_null(bytes, alignment)
                                                                : _ZnwmSt11align_val_t(bytes, alignment);
}

void *zg_static_new(size_t bytes) { return zg_static_new_aligned(bytes, HEADER); }
