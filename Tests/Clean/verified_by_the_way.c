// The program verifies freed blocks through the API while other threads free and pages are being protected.
// options: isolated_overhead=100%:quarantine_bytes=8m:isolated_per_context=0
// libs: -pthread

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../Sources/CZombie/include/zg_api.h"

enum { THREADS = 3, COUNT = 3000, SECONDS = 3 };

static int is_over;

static void *work(void *unused) {
    void **blocks = malloc(COUNT * sizeof *blocks);
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        for (int i = 0; i < COUNT; i++) blocks[i] = malloc(2000);
        for (int i = 0; i < COUNT; i++) free(blocks[i]);
    }
    free(blocks);
    return unused;
}

int main(void) {
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    const struct zg_api *api = find ? find() : NULL;
    uint64_t findings = 0;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end && api;) findings += api->verify();
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%d findings\n", (int)findings);
    return 0;
}
