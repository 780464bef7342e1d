// Macros of the one-bug programs: they keep functions in the stack trace and pointers in a register or on the stack.

#ifndef BUG_H
#define BUG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Marks a function that is never inlined, cloned or folded, so that the stack trace names it.
#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noipa))
#endif

// Follows the last call of a function and so prevents a tail call: the function's frame exists during that call.
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

// Keeps `pointer` in a register or on the stack up to this point, so that earlier accesses find it there.
#define HOLD(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

// Hides the value of `variable` from the optimizer from here on.
#define FORGET(variable) __asm__ volatile("" : "+r"(variable) : : "memory")

// Finds two blocks whose starts are `distance` bytes apart. Returns the index of the lower block and stores the index
// of the higher block in `*behind`. Returns -1 if there are no such blocks, as in an unguarded run.
static inline int find_neighbours(void *const *blocks, int count, size_t distance, int *behind) {
    for (int front = 0; front < count; front++)
        for (*behind = 0; *behind < count; ++*behind)
            if ((uintptr_t)blocks[*behind] == (uintptr_t)blocks[front] + distance) return front;
    return -1;
}

#endif
