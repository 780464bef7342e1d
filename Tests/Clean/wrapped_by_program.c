// The executable wraps the next definitions of malloc and free (RTLD_NEXT) and uses the other functions as they are.
// static: the program defines malloc or free, too

#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned made, freed;

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    return next(size);
}

void free(void *block) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    __atomic_fetch_add(&freed, block != NULL, __ATOMIC_RELAXED);
    next(block);
}

static void *work(void *unused) {
    for (int i = 0; i < 1000; i++) {
        void *aligned = NULL;
        free(calloc(10, (size_t)i));
        free(realloc(malloc(10), 10 + (size_t)i));
        if (posix_memalign(&aligned, 64, 100)) abort();
        free(aligned);
        free(strdup("copied"));
    }
    return unused;
}

int main(void) {
    char *early = calloc(1, 100);
    work(NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%d %d %s\n", made >= 10000, freed >= 20000, malloc_usable_size(early) >= 100 ? "usable" : "too small");
    free(early);
    return 0;
}
