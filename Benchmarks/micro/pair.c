// Allocates and frees one block, again and again: pair SCALE BYTES. Fewer rounds for large blocks, which detectors
// fill.
#include "bench.h"

int main(int argc, char **argv) {
    long size = argc > 2 ? atol(argv[2]) : 64, rounds = bench_rounds(argc, argv, 60000000 / (1 + size / 2048));
    uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        unsigned char *block = bench_need(malloc((size_t)size));
        bench_touch(block, (size_t)size, (uint64_t)i);
        sum += *(volatile unsigned char *)block;
        free(block);
    }
    printf("%llu\n", (unsigned long long)sum);
}
