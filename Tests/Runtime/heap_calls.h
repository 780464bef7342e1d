// Calls the heap's functions as the API entries do.

#ifndef HEAP_CALLS_H
#define HEAP_CALLS_H

#include "blocks/lookup.h"
#include "entry/entry.h"
#include "findings/finding.h"
#include "process/runtime.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/thread.h"

#define HEAP_FRAME ZG_ARCH_FRAME()

static __attribute__((noinline, unused)) void *heap_allocate(uint64_t size, uint64_t alignment, bool zero) {
    void *block =
        zg_entry_allocate(size, alignment, alignment > 16 ? zg_family_aligned : zg_family_malloc, zero, HEAP_FRAME);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

// Defines a function that allocates a block of this size. Each call site of the function is an allocation context of
// its own.
#define HEAP_PLACE(name, size)                                                                                         \
    static __attribute__((noinline)) char *name(void) {                                                                \
        char *block = heap_allocate(size, 16, false);                                                                  \
        __asm__ volatile("" : "+r"(block)::"memory");                                                                  \
        return block;                                                                                                  \
    }

static __attribute__((noinline, unused)) void heap_free(void *block) {
    zg_entry_free(block, zg_deallocator_free, ZG_ANY_SIZE, HEAP_FRAME);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, unused)) void *heap_resize(void *block, uint64_t size) {
    block = zg_entry_reallocate(block, size, HEAP_FRAME);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

__attribute__((unused)) static enum zg_state heap_state_of(const void *address) {
    struct zg_block_view view;
    return zg_lookup_block((uint64_t)address, &view) ? view.state : zg_state_fresh;
}

#endif
