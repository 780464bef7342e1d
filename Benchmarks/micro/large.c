// Blocks of 64 KiB to 4 MiB, 24 live, one word written in each page.
#include "bench.h"

int main(int argc, char **argv) {
    enum { LIVE = 24 };
    void *blocks[LIVE] = {0};
    struct bench_random r = {3};
    long rounds = bench_rounds(argc, argv, 20000);
    uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        uint32_t which = bench_next(&r, LIVE);
        if (blocks[which]) sum += *(unsigned char *)blocks[which];
        free(blocks[which]);
        size_t size = (size_t)65536 << bench_next(&r, 6);
        size += bench_next(&r, (uint32_t)size);
        unsigned char *block = blocks[which] = bench_need(malloc(size));
        for (size_t at = 0; at < size; at += 4096) block[at] = (unsigned char)i;
    }
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    printf("%llu\n", (unsigned long long)sum);
}
