// calloc of 8 bytes to 64 KiB, 500 live, every word read.
#include "bench.h"

int main(int argc, char **argv) {
    enum { LIVE = 500 };
    static uint64_t *blocks[LIVE];
    struct bench_random r = {11};
    long rounds = bench_rounds(argc, argv, 1400000);
    uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        uint32_t which = bench_next(&r, LIVE);
        free(blocks[which]);
        size_t words = 1 + bench_next(&r, 1u << (3 + bench_next(&r, 11)));
        uint64_t *block = blocks[which] = bench_need(calloc(words, sizeof *block));
        for (size_t word = 0; word < words; word++) sum += block[word];
        block[0] = ++sum, block[words - 1] = sum;
    }
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    printf("%llu\n", (unsigned long long)sum);
}
