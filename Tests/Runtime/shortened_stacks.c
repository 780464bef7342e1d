// Stacks are shortened while they do not repeat, and recorded whole once they repeat again; their memory stays bounded.
// preload
// options: stack_overhead=100%

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "check.h"
#include "paths.h"

enum { NEW = 400000, DEPTH = 27, THREADS = 3, KNOWN = 10000000, PATHS = 64 };

static const struct zg_stats_page *statistics;

static uint64_t count_of(enum zg_counter counter) { return statistics->counters[counter]; }

static void *allocate_anew(void *first) {
    for (uint64_t i = 0; i < NEW; i++) free(left(((uint64_t)first + i) * UINT64_C(0x9e3779b97f4a7c15) >> 20, DEPTH));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    if (!CHECK(find && find(), "the library is there")) return check_end();
    statistics = find()->statistics;
    for (uint64_t i = 0; i < PATHS; i++) free(left(i << 8, DEPTH));
    CHECK_EQUAL(count_of(zg_counter_stacks_shortened), 0, "a few stacks are recorded whole");
    CHECK(!(statistics->degradations >> zg_degradation_stacks_shortened & 1), "which is no degradation");
    for (uint64_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, allocate_anew, (void *)(i * 4 * NEW));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(count_of(zg_counter_stacks_shortened) > NEW, "of millions, most are shortened");
    CHECK(statistics->degradations >> zg_degradation_stacks_shortened & 1, "and that is said");
    uint64_t bytes = count_of(zg_counter_stack_bytes), nodes = count_of(zg_counter_stack_nodes);
    if (!CHECK(bytes <= UINT64_C(64) << 20, "they keep to their bound"))
        fprintf(stderr, "%ju bytes\n", (uintmax_t)bytes);
    CHECK(bytes >= nodes * 16, "in which the nodes lie");
    // Captures of one known stack, again and again, make new stacks affordable.
    for (uint64_t i = 0; i < KNOWN; i++) free(left(1, 0));
    uint64_t shortened = count_of(zg_counter_stacks_shortened), before = count_of(zg_counter_stack_nodes);
    for (uint64_t i = 0; i < PATHS; i++) free(left(i << 8 | UINT64_C(5) << 20, DEPTH));
    for (uint64_t i = 0; i < NEW / 10; i++) free(left(1, 0)); // publishes the thread's counters
    CHECK_EQUAL(count_of(zg_counter_stacks_shortened), shortened, "new stacks are recorded whole again");
    CHECK(count_of(zg_counter_stack_nodes) >= before + PATHS, "with their frames");
    return check_end();
}
