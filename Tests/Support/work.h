// A workload with a known result, for programs that are observed at work.
// Call from any thread.

#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Returns the same random numbers in every run (xorshift64*, Vigna, "An experimental exploration of Marsaglia's
// xorshift generators", 2016).
__attribute__((unused)) static uint64_t work_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

// Allocates, fills, checks and frees blocks of mixed sizes. Returns 0 if all allocations and all contents were right.
__attribute__((unused)) static int work_with_blocks(int rounds) {
    enum { HELD = 64 };
    unsigned char *held[HELD] = {0};
    size_t sizes[HELD] = {0};
    uint64_t state = 88172645463325252u;
    int wrong = 0;
    for (int i = 0; i < rounds; i++) {
        uint64_t r = work_random(&state);
        unsigned at = r % HELD;
        if (held[at]) {
            for (size_t j = 0; j < sizes[at]; j += 97) wrong += held[at][j] != (unsigned char)at;
            free(held[at]);
        }
        sizes[at] = (r >> 8) % 150 == 0 ? (r >> 20) % 300000 : (r >> 20) % 2500;
        held[at] = r >> 63 ? calloc(1, sizes[at]) : malloc(sizes[at]);
        if (!held[at]) return 100;
        memset(held[at], (int)at, sizes[at]);
        if ((r >> 40) % 5 == 0) {
            sizes[at] = 1 + (r >> 30) % 4000;
            held[at] = realloc(held[at], sizes[at]);
            if (!held[at]) return 100;
            memset(held[at], (int)at, sizes[at]);
        }
    }
    for (int i = 0; i < HELD; i++) free(held[i]);
    return wrong != 0;
}

#endif
