// Tests the table of pairs of stacks: growth beside other threads, the count of guarded frees, unknown stacks.
// link: runtime

#include "stacks/pairs.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "settings/stats.h"

#include "check.h"

// The process's own pairs consist of stacks with lower ids.
enum { FIRST = 1 << 20, STACKS = FIRST + 299, EACH = 300, THREADS = 4 };

static uint64_t counted(enum zg_counter counter) { return zg_stats_get(counter); }

static uint64_t added;

static void *add_all(void *unused) {
    static _Thread_local struct zg_pair_cache cache;
    uint64_t own = 0;
    for (uint32_t alloc = FIRST; alloc <= STACKS; alloc++)
        for (uint32_t free_stack = FIRST; free_stack <= STACKS; free_stack++)
            own += zg_pair_add(&cache, alloc, free_stack);
    for (uint32_t alloc = FIRST; alloc <= STACKS; alloc++)
        for (uint32_t free_stack = FIRST; free_stack <= STACKS; free_stack++)
            own += zg_pair_note(&cache, alloc, free_stack);
    __atomic_fetch_add(&added, own, __ATOMIC_RELAXED);
    return unused;
}

static void check_threads(void) {
    uint64_t before = counted(zg_counter_pairs);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, add_all, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(added, EACH * EACH, "one thread adds each pair");
    CHECK_EQUAL(counted(zg_counter_pairs) - before, EACH * EACH, "each pair is counted once");
}

static void check_guarded(void) {
    struct zg_pair_cache cache = {{0}};
    uint64_t pair = zg_pair(STACKS + 1, STACKS + 2), before = counted(zg_counter_pairs_watched);
    CHECK(!zg_pair_is_rare(pair), "a pair that was not added is not known to be rare");
    zg_pair_note_guarded(pair);
    CHECK_EQUAL(counted(zg_counter_pairs_watched), before, "a pair that was not added is not watched");
    CHECK(zg_pair_add(&cache, STACKS + 1, STACKS + 2), "the pair is new");
    for (int i = 0; i < ZG_PAIR_RARE_FREES; i++) {
        CHECK(zg_pair_is_rare(pair), "a pair with few guarded frees is rare");
        zg_pair_note_guarded(pair);
        CHECK_EQUAL(counted(zg_counter_pairs_watched), before + 1, "a watched pair is counted once");
    }
    CHECK(!zg_pair_is_rare(pair), "a pair with many guarded frees is not rare");
    for (int i = 0; i < 100; i++) zg_pair_note_guarded(pair);
    CHECK(!zg_pair_is_rare(pair) && !zg_pair_add(&cache, STACKS + 1, STACKS + 2), "the count does not wrap around");
    CHECK(zg_pair_is_rare(zg_pair(STACKS, STACKS)) && !zg_pair_is_rare(zg_pair(STACKS + 2, STACKS + 1)),
          "the count belongs to this pair alone");
}

static void check_unknown_stacks(void) {
    struct zg_pair_cache cache = {{0}};
    CHECK(!zg_pair_is_cached(&cache, 0, 0), "an empty cache does not contain the pair of two unknown stacks");
    zg_pair_add(&cache, 0, 0);
    CHECK(!zg_pair_add(&cache, 0, 0), "the table contains that pair");
    CHECK(zg_pair_add(&cache, FIRST, 0) && zg_pair_add(&cache, 0, FIRST), "either stack may be unknown");
    CHECK(!zg_pair_is_cached(&cache, 0, 0) && !zg_pair_is_cached(&cache, FIRST, 0), "no unknown free stack is cached");
    CHECK(zg_pair_is_cached(&cache, 0, FIRST) && !zg_pair_is_cached(&cache, 0, FIRST + 1), "other pairs are");
}

// Watches a pair that the parent has seen, and one that the child sees first. Returns the number of watched pairs.
static uint64_t watch_in_child(uint64_t inherited) {
    struct zg_pair_cache cache = {{0}};
    uint64_t before = counted(zg_counter_pairs_watched), own = zg_pair(STACKS + 4, STACKS + 4);
    zg_pair_after_fork_in_child(); // no fork handler calls it, because the runtime has not started
    zg_pair_add(&cache, STACKS + 4, STACKS + 4);
    zg_pair_note_guarded(inherited);
    zg_pair_note_guarded(own);
    return counted(zg_counter_pairs_watched) - before;
}

static void check_forks(void) {
    struct zg_pair_cache cache = {{0}};
    uint64_t inherited = zg_pair(STACKS + 3, STACKS + 3), before = counted(zg_counter_pairs_watched);
    zg_pair_add(&cache, STACKS + 3, STACKS + 3);
    int status = 0;
    pid_t child = fork();
    if (!child) _exit((int)watch_in_child(inherited));
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status), "a child runs");
    CHECK_EQUAL(WEXITSTATUS(status), 1, "a pair that the parent counted as seen is not counted as watched in a child");
    zg_pair_note_guarded(inherited);
    CHECK_EQUAL(counted(zg_counter_pairs_watched), before + 1, "the parent counts the pair as watched");
}

int main(void) {
    check_threads();
    check_forks();
    check_guarded();
    check_unknown_stacks();
    return check_end();
}
