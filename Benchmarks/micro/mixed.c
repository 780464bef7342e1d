// Mixed sizes with random lifetimes: 20,000 live blocks, of which a random one is replaced each time.
#include "bench.h"

int main(int argc, char **argv) {
    enum { LIVE = 20000 };
    static void *blocks[LIVE];
    struct bench_random r = {42};
    long rounds = bench_rounds(argc, argv, 18000000);
    uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        uint32_t which = bench_next(&r, LIVE);
        if (blocks[which]) {
            sum += *(unsigned char *)blocks[which];
            free(blocks[which]);
        }
        size_t size = bench_size(&r);
        blocks[which] = bench_need(malloc(size));
        bench_touch(blocks[which], size, (uint64_t)i);
    }
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    printf("%llu\n", (unsigned long long)sum);
}
