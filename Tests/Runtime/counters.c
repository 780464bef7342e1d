// Counters of allocations, frees and live memory are exact once every thread has added its counts.
// link: runtime

#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"
#include "process/thread_entry.h"

enum { BLOCKS = 3000, KEPT = 1000, BYTES = 1008, LARGE = 300000, THREADS = 3 };

struct counts {
    uint64_t allocations, frees, live_blocks, live_bytes;
};

static struct counts counts_now(void) {
    zg_thread_flush_counters(zg_thread_current_or_null());
    return (struct counts){zg_stats_get(zg_counter_allocations), zg_stats_get(zg_counter_frees),
                           zg_stats_get(zg_counter_live_blocks), zg_stats_get(zg_counter_live_bytes)};
}

static struct counts change_since(struct counts before) {
    struct counts now = counts_now();
    return (struct counts){now.allocations - before.allocations, now.frees - before.frees,
                           now.live_blocks - before.live_blocks, now.live_bytes - before.live_bytes};
}

static void *kept[THREADS][KEPT];

// Allocates BLOCKS blocks, and frees all but the last KEPT.
static void *work(void *place) {
    void **last = place;
    for (int i = 0; i < BLOCKS; i++) {
        void *block = heap_allocate(BYTES, 16, false);
        if (i < BLOCKS - KEPT) heap_free(block);
        else last[i - (BLOCKS - KEPT)] = block;
    }
    return NULL;
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "report_path=/dev/null:isolated_per_context=0", 1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    heap_free(heap_allocate(BYTES, 16, false));
    struct counts before = counts_now();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, kept[i]);
        pthread_join(threads[i], NULL); // one thread at a time: libc allocates a block for each and keeps it
    }
    struct counts done = change_since(before);
    uint64_t libc_blocks = done.live_blocks - THREADS * KEPT;
    CHECK(libc_blocks <= THREADS, "the threads' blocks are live, and at most one of libc for each");
    CHECK_EQUAL(done.allocations - done.frees, done.live_blocks, "live blocks are those that are not freed");
    CHECK(done.frees >= THREADS * (BLOCKS - KEPT), "each free counts");
    CHECK(done.live_bytes >= (uint64_t)THREADS * KEPT * BYTES, "and so do the bytes of live blocks");
    CHECK(done.live_bytes <= (uint64_t)THREADS * KEPT * 1024 + libc_blocks * 4096, "rounded up to slots");
    before = counts_now();
    for (int i = 0; i < THREADS; i++) // blocks of other threads
        for (int j = 0; j < KEPT; j++) heap_free(kept[i][j]);
    void *large = heap_allocate(LARGE, 16, false);
    done = change_since(before);
    CHECK_EQUAL(done.frees, THREADS * KEPT, "frees count in the thread that frees");
    CHECK_EQUAL(done.allocations, 1, "a large block is a block");
    CHECK_EQUAL(done.live_blocks + THREADS * KEPT, 1, "its allocation is the only one that is left");
    CHECK_EQUAL(done.live_bytes + THREADS * KEPT * 1024, LARGE, "with its size");
    CHECK(zg_stats_get(zg_counter_live_bytes_peak) >= (uint64_t)THREADS * KEPT * BYTES,
          "the peak is that of all threads");
    heap_free(large);
    done = change_since(before);
    CHECK_EQUAL(done.live_bytes + THREADS * KEPT * 1024, 0, "a freed large block is gone from the live bytes");
    return check_end();
}
