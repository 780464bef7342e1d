// Destructors of thread keys free and allocate at thread exit and set another key, which needs a second round.
// libs: -lpthread

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_key_t keys[4];
static int runs;

static void drop(void *value) {
    int *rest = value;
    int again = *rest - 1;
    __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
    free(value);
    if (again <= 0) return;
    int *next = malloc(sizeof *next);
    *next = again;
    pthread_setspecific(keys[again % 4], next);
}

static void *work(void *unused) {
    for (int i = 0; i < 4; i++) {
        int *value = malloc(sizeof *value);
        *value = 3;
        pthread_setspecific(keys[i], value);
    }
    return unused;
}

int main(void) {
    for (int i = 0; i < 4; i++) pthread_key_create(&keys[i], i == 3 ? drop : free);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    }
    printf("%d\n", runs);
    return 0;
}
