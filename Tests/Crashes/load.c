// Program that is killed at random moments: four threads allocate and free, and the main thread starts threads and
// children in a loop. Prints "ready" when all threads run.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 512, THREADS = 4 };

static void *allocate(void *seed) {
    void *blocks[BLOCKS] = {0};
    uint32_t state = (uint32_t)(uintptr_t)seed;
    for (;;) {
        state = state * 1664525 + 1013904223;
        void **block = &blocks[state >> 8 & (BLOCKS - 1)];
        size_t bytes = (state >> 20 & 15) ? state >> 22 : state >> 14;
        free(*block);
        *block = state & 128 ? malloc(bytes + 1) : calloc(1, bytes + 1);
        if (*block) memset(*block, 1, bytes / 2);
    }
    return NULL;
}

static void *nothing(void *argument) { return argument; }

int main(void) {
    FILE *sink = fopen("/dev/null", "w");
    pthread_t thread;
    for (uintptr_t i = 1; i <= THREADS; i++) pthread_create(&thread, NULL, allocate, (void *)(i * 7919));
    puts("ready");
    fflush(stdout);
    for (int i = 0;; i++) {
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
        fprintf(sink, "%d\n", i);
        if (i % 16) continue;
        pid_t child = fork();
        if (!child) _exit(0);
        if (child > 0) waitpid(child, NULL, 0);
    }
}
