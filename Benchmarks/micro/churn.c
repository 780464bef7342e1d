// Threads with working sets, parts of which they exchange. Most blocks are short-lived, some are long-lived, and some
// reach another thread through a shared table and are freed there. A thread's operations depend only on its own random
// numbers, so that the work does not depend on scheduling.
#include "bench.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, YOUNG = 256, KEPT = 4096, SHARED = 512, TRADED = 24, STEPS = 4000000 };

struct worker {
    struct bench_random random;
    unsigned char *young[YOUNG], *kept[KEPT];
    long steps;
    uint64_t bytes;
};

static _Atomic(unsigned char *) shared[SHARED];

// Most blocks are small. One in a thousand is as large as a file's contents.
static unsigned char *make(struct worker *worker) {
    struct bench_random *random = &worker->random;
    size_t size = bench_next(random, 1000) ? bench_size(random) : 65536 + bench_next(random, 196608);
    unsigned char *block = bench_need(malloc(size));
    worker->bytes += size;
    bench_touch(block, size, worker->bytes);
    return block;
}

static void replace(unsigned char **place, struct worker *worker) {
    free(*place);
    *place = make(worker);
}

// Puts some of the kept blocks into the shared table, and takes the blocks that were there.
static void trade(struct worker *worker) {
    uint32_t mine = bench_next(&worker->random, KEPT - TRADED), ours = bench_next(&worker->random, SHARED - TRADED);
    for (uint32_t i = 0; i < TRADED; i++)
        worker->kept[mine + i] = atomic_exchange(&shared[ours + i], worker->kept[mine + i]);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (long step = 0; step < worker->steps; step++) {
        uint32_t kind = bench_next(&worker->random, 1000);
        if (kind < 800) replace(&worker->young[step % YOUNG], worker);
        else if (kind < 997) replace(&worker->kept[bench_next(&worker->random, KEPT)], worker);
        else trade(worker);
    }
    return NULL;
}

static void free_all(unsigned char **blocks, int count) {
    for (int i = 0; i < count; i++) free(blocks[i]);
}

int main(int argc, char **argv) {
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t].random.state = (uint64_t)t + 101;
        workers[t].steps = bench_rounds(argc, argv, STEPS);
        if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0) return 2;
    }
    uint64_t bytes = 0;
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        bytes += workers[t].bytes;
    }
    for (int t = 0; t < THREADS; t++) {
        free_all(workers[t].young, YOUNG);
        free_all(workers[t].kept, KEPT);
    }
    for (int i = 0; i < SHARED; i++) free(atomic_load(&shared[i]));
    printf("%llu\n", (unsigned long long)bytes);
}
