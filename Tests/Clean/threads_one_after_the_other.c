// 65,536 threads run in turn on one stack. The last may use less than the first; both call malloc at one stack address.
// libs: -lpthread -fno-omit-frame-pointer

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../Support/supplied_stack.h"

enum { THREADS = 65536, MOST = 500 << 10, SHORTER = 300 << 10, LEAST = 64 << 10 };

static void *work(void *goes_down) {
    if (goes_down) go_down();
    return NULL;
}

static void live(size_t bytes, void *goes_down) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, bytes)) exit(1);
    if (pthread_create(&thread, &attributes, work, goes_down)) exit(2);
    pthread_join(thread, NULL);
}

int main(void) {
    stack = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    live(MOST, &stack);
    for (int i = 1; i < THREADS; i++) live(LEAST, NULL);
    mprotect(stack + SHORTER, MOST - SHORTER, PROT_NONE);
    live(SHORTER, &stack);
    puts("done");
    return 0;
}
