// Equal sizes, first in first out through a queue of 4,096: each free hits the oldest, coldest block.
#include "bench.h"

int main(int argc, char **argv) {
    enum { LENGTH = 4096 };
    static void *queue[LENGTH];
    long rounds = bench_rounds(argc, argv, 80000000);
    uint64_t sum = 0;
    for (long i = 0; i < rounds; i++) {
        void **place = &queue[i % LENGTH];
        if (*place) {
            sum += *(unsigned char *)*place;
            free(*place);
        }
        *place = bench_need(malloc(96));
        bench_touch(*place, 96, (uint64_t)i);
    }
    for (int i = 0; i < LENGTH; i++) free(queue[i]);
    printf("%llu\n", (unsigned long long)sum);
}
