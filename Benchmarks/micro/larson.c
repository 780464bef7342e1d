// After Larson and Krishnan: threads replace random blocks of their array, and hand the array to a new thread when they
// end. Most blocks are freed by another thread than the one that allocated them.
#include "bench.h"
#include <pthread.h>

enum { THREADS = 4, LIVE = 2000, STEPS = 50000 };

struct work {
    void *blocks[LIVE];
    struct bench_random random;
    uint64_t sum;
};

static void *generation(void *argument) {
    struct work *work = argument;
    for (int i = 0; i < STEPS; i++) {
        uint32_t which = bench_next(&work->random, LIVE);
        if (work->blocks[which]) {
            work->sum += *(unsigned char *)work->blocks[which];
            free(work->blocks[which]);
        }
        size_t size = bench_size(&work->random);
        work->blocks[which] = bench_need(malloc(size));
        bench_touch(work->blocks[which], size, (uint64_t)i);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static struct work works[THREADS];
    long rounds = bench_rounds(argc, argv, 90);
    for (int t = 0; t < THREADS; t++) works[t].random.state = (uint64_t)t + 1;
    for (long round = 0; round < rounds; round++) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            if (pthread_create(&threads[t], NULL, generation, &works[t]) != 0) return 2;
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    }
    uint64_t sum = 0;
    for (int t = 0; t < THREADS; t++) {
        sum += works[t].sum;
        for (int i = 0; i < LIVE; i++) free(works[t].blocks[i]);
    }
    printf("%llu\n", (unsigned long long)sum);
}
