// In the fourth (last) round, key destructors call malloc at one stack address, on supplied stacks of different sizes.
// libs: -lpthread -fno-omit-frame-pointer

#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../Support/supplied_stack.h"

enum { THREADS = 60, MOST = 1 << 20, LONGER = 500 << 10, SHORTER = 300 << 10 };

static pthread_key_t key;
static int last_rounds;
static __thread int rounds;

static void drop(void *value) {
    pthread_setspecific(key, value);
    if (++rounds != PTHREAD_DESTRUCTOR_ITERATIONS) return;
    go_down();
    last_rounds++;
}

static void *work(void *value) {
    pthread_setspecific(key, value);
    return NULL;
}

int main(void) {
    pthread_key_create(&key, drop);
    stack = mmap(NULL, MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < THREADS; i++) {
        size_t bytes = i % 2 ? SHORTER : LONGER;
        pthread_attr_t attributes;
        pthread_t thread;
        mprotect(stack, bytes, PROT_READ | PROT_WRITE);
        mprotect(stack + bytes, MOST - bytes, PROT_NONE);
        pthread_attr_init(&attributes);
        if (pthread_attr_setstack(&attributes, stack, bytes)) return 1;
        if (pthread_create(&thread, &attributes, work, &stack)) return 2;
        pthread_join(thread, NULL);
    }
    printf("%d\n", last_rounds);
    return 0;
}
