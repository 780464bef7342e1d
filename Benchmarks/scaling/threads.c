// Runs the same work in each thread, malloc and free of mixed sizes in its own working set: threads SCALE THREADS.
// Prints wall-clock nanoseconds from the common start to the end of the last thread, processor nanoseconds, and the
// number of blocks. Threads are bound to processors in turn, so that the benchmark measures the allocator, not the
// scheduler.
#define _GNU_SOURCE
#include "../micro/bench.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { MOST_THREADS = 64, LIVE = 1000, STEPS = 12000000 };

struct worker {
    pthread_barrier_t *begin;
    struct bench_random random;
    long steps;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    struct bench_random random = worker->random;
    unsigned char *blocks[LIVE] = {0};
    pthread_barrier_wait(worker->begin);
    for (long step = 0; step < worker->steps; step++) {
        unsigned char **place = &blocks[bench_next(&random, LIVE)];
        free(*place);
        size_t size = bench_size(&random);
        *place = bench_need(malloc(size));
        bench_touch(*place, size, (uint64_t)step);
    }
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    return NULL;
}

// Binds the thread to one of the processors that this process may use: processor `number` modulo their count.
static void bind_to_processor(pthread_t thread, int number) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    number %= CPU_COUNT(&allowed);
    int processor = 0;
    while (!CPU_ISSET(processor, &allowed) || number-- > 0) processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

static long long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[2]) : 1;
    if (count < 1 || count > MOST_THREADS) {
        fputs("usage: threads SCALE THREADS\n", stderr);
        return 64;
    }
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, (unsigned)count + 1);
    struct worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    for (int t = 0; t < count; t++) {
        workers[t] = (struct worker){&begin, {(uint64_t)t + 1}, bench_rounds(argc, argv, STEPS)};
        if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0) return 2;
        bind_to_processor(threads[t], t);
    }
    // Read the time before the barrier: after it, the other threads may run first.
    long long start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_wait(&begin);
    for (int t = 0; t < count; t++) pthread_join(threads[t], NULL);
    long long wall = now(CLOCK_MONOTONIC) - start, cpu = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%lld %lld %ld\n", wall, cpu, count * workers[0].steps);
}
