// Equal sizes, last in first out: a thread cache's best case.
#include "bench.h"

int main(int argc, char **argv) {
    enum { DEPTH = 64 };
    void *blocks[DEPTH];
    long rounds = bench_rounds(argc, argv, 900000);
    uint64_t sum = 0;
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < DEPTH; i++) {
            blocks[i] = bench_need(malloc(48));
            bench_touch(blocks[i], 48, (uint64_t)round + (uint64_t)i);
        }
        for (int i = DEPTH; i-- > 0;) {
            sum += *(unsigned char *)blocks[i];
            free(blocks[i]);
        }
    }
    printf("%llu\n", (unsigned long long)sum);
}
