// One thread allocates, another frees: every block crosses threads, in batches of 256.
#include "bench.h"
#include <pthread.h>

enum { BATCH = 256, SLOTS = 32 };

static void *ring[SLOTS][BATCH];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long rounds;

static void *produce(void *argument) {
    struct bench_random r = {7};
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&lock);
        while (head - tail == SLOTS) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < BATCH; i++) {
            size_t size = 16 + bench_next(&r, 240);
            ring[head % SLOTS][i] = bench_need(malloc(size));
            bench_touch(ring[head % SLOTS][i], size, (uint64_t)round);
        }
        pthread_mutex_lock(&lock);
        head++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

int main(int argc, char **argv) {
    rounds = bench_rounds(argc, argv, 24000);
    pthread_t producer;
    if (pthread_create(&producer, NULL, produce, NULL) != 0) return 2;
    uint64_t sum = 0;
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&lock);
        while (head == tail) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < BATCH; i++) {
            sum += *(unsigned char *)ring[tail % SLOTS][i];
            free(ring[tail % SLOTS][i]);
        }
        pthread_mutex_lock(&lock);
        tail++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(producer, NULL);
    printf("%llu\n", (unsigned long long)sum);
}
