// Double frees, each with a distinct stack, so that each of them is a separate finding.

#include <stdint.h>
#include <stdlib.h>

enum { STACK_BITS = 14 };

static __attribute__((noinline)) void right(uint32_t path, int depth);
static __attribute__((noinline)) void left(uint32_t path, int depth) {
    if (depth == 0) {
        void *volatile block = malloc(24);
        free(block);
        free(block);
    } else if (path & 1) {
        right(path >> 1, depth - 1);
    } else {
        left(path >> 1, depth - 1);
    }
    __asm__ volatile("" ::: "memory"); // prevents a tail call
}
static __attribute__((noinline)) void right(uint32_t path, int depth) {
    if (depth && path & 1) right(path >> 1, depth - 1);
    else left(path >> 1, depth ? depth - 1 : 0);
    __asm__ volatile("" ::: "memory");
}

// `path` must be less than 1 << STACK_BITS.
static inline void free_twice(uint32_t path) { left(path, STACK_BITS); }
