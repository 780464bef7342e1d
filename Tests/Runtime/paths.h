// Two functions that call each other and themselves, so that each path through them gives its block a stack of its own.

#ifndef PATHS_H
#define PATHS_H

#include <stdint.h>
#include <stdlib.h>

static volatile int returns;

static void *right(uint64_t path, int depth);

static __attribute__((noinline)) void *left(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns++;
    return block;
}

static __attribute__((noinline)) void *right(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns--;
    return block;
}

#endif
