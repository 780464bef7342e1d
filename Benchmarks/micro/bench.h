// Shared by all allocation benchmarks: the size from the command line, random numbers, a checksum that keeps the work
// alive.

#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Scales the full work by the first argument (1 if absent). Returns at least one round.
static inline long bench_rounds(int argc, char **argv, long full) {
    double scale = argc > 1 ? atof(argv[1]) : 1;
    long rounds = (long)((double)full * scale);
    return rounds > 0 ? rounds : 1;
}

struct bench_random {
    uint64_t state;
};

static inline uint32_t bench_next(struct bench_random *r, uint32_t limit) {
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((r->state >> 33) % limit);
}

// Returns a typical block size of programs: mostly small, sometimes a few kilobytes.
static inline size_t bench_size(struct bench_random *r) {
    uint32_t kind = bench_next(r, 100);
    if (kind < 60) return 16 + bench_next(r, 64);
    if (kind < 90) return 64 + bench_next(r, 256);
    if (kind < 99) return 256 + bench_next(r, 2048);
    return 2048 + bench_next(r, 16384);
}

// Writes the first and the last byte of a block, as a program would.
static inline void bench_touch(void *block, size_t size, uint64_t value) {
    volatile unsigned char *bytes = (volatile unsigned char *)block;
    bytes[0] = (unsigned char)value;
    bytes[size - 1] = (unsigned char)(value >> 8);
}

static inline void *bench_need(void *block) {
    if (!block) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    return block;
}

#endif
