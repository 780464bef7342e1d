// Threads are cancelled while they wait; their cleanup handlers free their blocks.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int cleaned;
static pthread_barrier_t ready;

static void clean_up(void *block) {
    free(block);
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *wait_forever(void *unused) {
    char *block = malloc(1000);
    pthread_cleanup_push(clean_up, block);
    pthread_barrier_wait(&ready);
    for (;;) pause();
    pthread_cleanup_pop(1);
    return unused;
}

int main(void) {
    pthread_t threads[10];
    pthread_barrier_init(&ready, NULL, 11);
    for (int i = 0; i < 10; i++) pthread_create(&threads[i], NULL, wait_forever, NULL);
    pthread_barrier_wait(&ready);
    int cancelled = 0;
    for (int i = 0; i < 10; i++) {
        void *result = NULL;
        pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("%d %d\n", cancelled, cleaned);
    return 0;
}
