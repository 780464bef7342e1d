// Threads with the smallest possible stack allocate, reallocate and free.
// libs: -lpthread

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *work(void *unused) {
    void *blocks[8];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 8; i++) blocks[i] = malloc((size_t)(round * 7 + i));
        for (int i = 0; i < 8; i++) blocks[i] = realloc(blocks[i], (size_t)(round * 50 + 1));
        for (int i = 0; i < 8; i++) free(blocks[i]);
        free(calloc(3, 5000));
        free(aligned_alloc(64, 640));
    }
    return unused;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t threads[8];
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], &attributes, work, NULL)) return 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts("end");
    return 0;
}
