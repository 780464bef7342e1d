// Two threads use the same new contexts at the same time: each context is counted once, and as isolated once.
// link: runtime
// options: isolated_overhead=100%:isolated_windows=off

#include <pthread.h>

#include "check.h"
#include "pages/choice.h"
#include "process/runtime.h"
#include "settings/stats.h"

enum { THREADS = 2, CONTEXTS = 20000 };

static int arrived;

static void *choose(void *argument) {
    (void)argument;
    for (int i = 0; i < CONTEXTS; i++) {
        __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < THREADS * (i + 1)) {
        }
        zg_choice_decide(i + 1, 64, false, 0);
        zg_choice_note_isolated(i + 1, 0);
    }
    return NULL;
}

int main(void) {
    zg_runtime_start();
    uint64_t seen = zg_stats_get(zg_counter_contexts), isolated = zg_stats_get(zg_counter_contexts_fenced);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, choose, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(zg_stats_get(zg_counter_contexts) - seen, CONTEXTS, "a context is counted once");
    CHECK_EQUAL(zg_stats_get(zg_counter_contexts_fenced) - isolated, CONTEXTS, "and once as isolated");
    return check_end();
}
