// Two hundred threads at once, then two thousand in turn, pass blocks to each other.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *mailbox[64];
static pthread_barrier_t start;

static void exchange(unsigned seed, int rounds) {
    for (int i = 0; i < rounds; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = (seed >> 16) % 1000;
        void *block = malloc(size);
        free(__atomic_exchange_n(&mailbox[seed >> 26], block, __ATOMIC_ACQ_REL));
    }
}

static void *run_together(void *argument) {
    pthread_barrier_wait(&start);
    exchange((unsigned)(long)argument, 500);
    return NULL;
}

static void *run_alone(void *argument) {
    exchange((unsigned)(long)argument, 10);
    return NULL;
}

int main(void) {
    static pthread_t threads[200];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&start, NULL, 200);
    for (long i = 0; i < 200; i++)
        if (pthread_create(&threads[i], &small, run_together, (void *)i)) return 1;
    for (int i = 0; i < 200; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < 2000; i++) {
        if (pthread_create(&threads[0], &small, run_alone, (void *)i)) return 2;
        pthread_join(threads[0], NULL);
    }
    for (int i = 0; i < 64; i++) free(mailbox[i]);
    puts("end");
    return 0;
}
