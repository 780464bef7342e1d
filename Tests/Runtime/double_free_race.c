// Two threads that free the same block at the same time: one free succeeds, the other one is a finding.
// link: runtime

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"

enum { ROUNDS = 20000, SPINS = 1000, LONGEST_DELAY = 400, BYTES = 100 };

static void *block;
static unsigned round_begun, rounds_done;

static uint64_t findings(void) {
    return zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed);
}

// Waits until the number is reached, at first without giving up the processor, so that both threads go on at once.
static void await(const unsigned *number, unsigned least) {
    for (unsigned i = 0; __atomic_load_n(number, __ATOMIC_ACQUIRE) < least; i++)
        if (i > SPINS) sched_yield();
}

static void *free_each(void *unused) {
    for (unsigned i = 1; i <= ROUNDS; i++) {
        await(&round_begun, i);
        heap_free(block);
        __atomic_store_n(&rounds_done, i, __ATOMIC_RELEASE);
    }
    return unused;
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "on_finding=continue:report_path=/dev/null:isolated_per_context=0", 1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    heap_free(heap_allocate(BYTES, 16, false));
    uint64_t before = findings();
    pthread_t thread;
    pthread_create(&thread, NULL, free_each, NULL);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        block = heap_allocate(BYTES, 16, false);
        __atomic_store_n(&round_begun, i, __ATOMIC_RELEASE);
        for (volatile unsigned left = i % LONGEST_DELAY; left; left--) {
        } // wait a little, because the other thread begins later
        heap_free(block);
        await(&rounds_done, i);
    }
    pthread_join(thread, NULL);
    CHECK_EQUAL(findings() - before, ROUNDS, "one of two frees is a finding, each time");
    return check_end();
}
