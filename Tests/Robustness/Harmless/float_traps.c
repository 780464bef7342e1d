// Allocates in two threads and prints their floating-point exception flags, which must be 0. "trap" enables all traps.
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 256, ROUNDS = 60000 };

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void *use(void *seed) {
    void *slots[SLOTS] = {NULL};
    uint64_t state = (uint64_t)(uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        void **slot = &slots[next(&state) % SLOTS];
        uint64_t bytes = i % 1000 ? 1 + next(&state) % 2000 : 1 + next(&state) % 300000;
        switch (next(&state) % 4) {
        case 0:
            free(*slot);
            *slot = malloc(bytes);
            break;
        case 1:
            free(*slot);
            *slot = calloc(1, bytes);
            break;
        case 2: *slot = realloc(*slot, bytes); break;
        default:
            free(*slot);
            *slot = NULL;
            if (posix_memalign(slot, 64, bytes)) abort();
        }
        if (!*slot) abort();
        memset(*slot, 1, bytes);
        if (i % 20000 == 0) usleep(1000); // lets the runtime repeat its clock-based measurements
    }
    for (int i = 0; i < SLOTS; i++) free(slots[i]);
    return (void *)(intptr_t)fetestexcept(FE_ALL_EXCEPT);
}

int main(int count, char **words) {
    int traps = count > 1 && !strcmp(words[1], "trap");
    feclearexcept(FE_ALL_EXCEPT);
    // arm64 processors may lack traps; fetestexcept detects the exceptions there.
    if (traps) feenableexcept(FE_ALL_EXCEPT);
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, (void *)1)) return 2;
    void *own = use((void *)2), *other = NULL;
    pthread_join(thread, &other);
    printf("flags %d %d\n", (int)(intptr_t)own, (int)(intptr_t)other);
    return 0;
}
