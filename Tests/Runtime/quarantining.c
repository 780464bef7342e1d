// Quarantine: its cap holds, freed blocks of rare contexts stay, large blocks leave first, changed bytes are found.
// link: runtime
// libs: -Wl,--wrap=zg_os_retire

#include <pthread.h>
#include <string.h>

#include "blocks/fill.h"
#include "check.h"
#include "heap/quarantine.h"
#include "heap_calls.h"
#include "process/ready.h"
#include "process/thread_entry.h"

static uint64_t findings(void) {
    return zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed);
}

static __attribute__((noinline)) void trim(void) {
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    zg_quarantine_trim(thread, 0);
    zg_thread_leave(thread);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void *rare(uint64_t size) {
    void *block = heap_allocate(size, 16, false);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

static __attribute__((noinline)) void busy(uint64_t size) {
    heap_free(heap_allocate(size, 16, false));
    __asm__ volatile("" ::: "memory");
}

static void check_cap(void) {
    uint64_t cap = zg_config.quarantine_bytes, state = 3, most = 0;
    for (int i = 0; i < 200000; i++) {
        uint64_t r = work_random(&state);
        heap_free(heap_allocate(r % 100 ? r % 2000 : r % 600000, 16, false));
        if (zg_quarantine_bytes() > most) most = zg_quarantine_bytes();
    }
    CHECK(most <= cap, "the quarantine holds no more than it may");
    CHECK(most > cap / 2, "and uses what it may");
    trim();
    CHECK_EQUAL(zg_quarantine_bytes(), 0, "a trimmed quarantine is empty");
}

static void check_fairness(void) {
    enum { MOST = 16 };
    uint64_t count = zg_min(zg_config.quarantine_per_context, MOST);
    if (count == 0) return;
    unsigned char *kept[MOST];
    for (uint64_t i = 0; i < count; i++) memset(kept[i] = rare(48), 1, 48);
    for (uint64_t i = 0; i < count; i++) heap_free(kept[i]);
    int died_at = -1;
    for (int i = 0; i < 1000000; i++) {
        busy(48);
        for (uint64_t j = 0; j < count && died_at < 0 && i % 1000 == 0; j++)
            if (heap_state_of(kept[j]) != zg_state_quarantined) died_at = i;
    }
    CHECK_EQUAL(died_at, -1, "a million frees of another context do not evict a rare one's newest dead blocks");
    CHECK_EQUAL(kept[0][20], ZG_FILL_FREED, "their fill is untouched");
    trim();
}

static void check_large_first(void) {
    unsigned char *small = rare(100), *large = heap_allocate(300000, 16, false);
    heap_free(small);
    heap_free(large);
    CHECK_EQUAL(heap_state_of(large), zg_state_quarantined, "a large block is held");
    for (uint64_t freed = 0; freed < zg_config.quarantine_bytes * 2; freed += 1024) busy(1000);
    CHECK(heap_state_of(large) != zg_state_quarantined, "a large block leaves");
    CHECK_EQUAL(heap_state_of(small), zg_state_quarantined, "before a small one of a rare context");
    trim();
}

// A block with a large alignment counts as large even if it has 0 bytes: blocks behind it in the queue can leave.
static void check_empty_ones(void) {
    trim();
    void *empty = heap_allocate(0, 1 << 20, false), *large = heap_allocate(300000, 16, false);
    heap_free(empty);
    heap_free(large);
    CHECK_EQUAL(heap_state_of(large), zg_state_quarantined, "a large block is held behind an empty one");
    trim();
    CHECK_EQUAL(zg_quarantine_bytes(), 0, "and leaves with it");
    CHECK(heap_state_of(large) != zg_state_quarantined, "its state says so");
}

// A block's state changes before its pages do. An observer process that stops the thread in between does not compare
// the block with the fill, because it compares only quarantined blocks.
static enum zg_state state_meanwhile;
static const void *leaving;
int __real_zg_os_retire(void *start, uint64_t bytes);
int __wrap_zg_os_retire(void *start, uint64_t bytes);
int __wrap_zg_os_retire(void *start, uint64_t bytes) {
    if (start == leaving) state_meanwhile = heap_state_of(start);
    return __real_zg_os_retire(start, bytes);
}
static void check_order(void) {
    unsigned char *large = heap_allocate(300000, 16, false);
    uint32_t overhead = zg_config.isolated_overhead;
    zg_config.on_finding = zg_on_finding_abort; // with `continue` the pages stay accessible
    zg_config.isolated_overhead = ZG_NO_LIMIT_PERCENT;
    leaving = large;
    memset(large, 1, 300000);
    heap_free(large);
    CHECK_EQUAL(heap_state_of(large), zg_state_quarantined, "a large block is held");
    trim();
    CHECK_EQUAL(heap_state_of(large), zg_state_retired, "its pages leave for good");
    CHECK_EQUAL(state_meanwhile, zg_state_held, "and nobody compares its contents from then on");
    zg_config.on_finding = zg_on_finding_continue;
    zg_config.isolated_overhead = overhead;
}

static void check_fill(void) {
    for (uint64_t size = 1; size < 400000; size += size < 300 ? 1 : size / 5) {
        unsigned char *block = heap_allocate(size, 16, false);
        memset(block, 0x21, size);
        heap_free(block);
        bool complete = true;
        if (heap_state_of(block) == zg_state_quarantined)
            for (uint64_t i = 0; i < size; i++) complete = complete && block[i] == ZG_FILL_FREED;
        CHECK(complete, "a dead block is filled to its last byte");
    }
    trim();
    CHECK_EQUAL(zg_quarantine_verify_all("test"), 0, "nothing changed, nothing is found");
}

static void check_changes(void) {
    static const uint64_t sizes[] = {1, 16, 17, 48, 100, 128, 1000, 1024, 1025, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t at = 0; at<sizes[i]; at += sizes[i]> 200 ? 61 : 1) {
            unsigned char *block = heap_allocate(sizes[i], 16, false);
            heap_free(block);
            block[at] ^= 1;
            uint64_t before = findings();
            zg_quarantine_verify_all("test");
            CHECK_EQUAL(findings() - before, 1, "one changed byte, wherever it is");
            block[at] ^= 1;
        }
    for (uint64_t at = 0; at < 300000; at += 29989) {
        unsigned char *large = heap_allocate(300000, 16, false);
        memset(large, 1, 300000); // pages that were never touched are not verified
        heap_free(large);
        large[at] = 1;
        uint64_t before = findings();
        zg_quarantine_verify_all("test");
        CHECK_EQUAL(findings() - before, 1, "one changed byte of a large block");
        large[at] = ZG_FILL_FREED;
        // Every change is found in pages that were written before the free. Other pages were not filled.
        large = heap_allocate(300000, 16, false);
        memset(large, 7, 300000);
        heap_free(large);
        CHECK_EQUAL(large[at], ZG_FILL_FREED, "a page that was written is filled");
        large[at] = 0;
        before = findings();
        zg_quarantine_verify_all("test");
        CHECK_EQUAL(findings() - before, 1, "one byte of a large block that became zero");
        large[at] = ZG_FILL_FREED;
    }
    unsigned char *block = heap_allocate(64, 16, false);
    heap_free(block);
    block[63] = 9;
    uint64_t before = findings();
    trim();
    CHECK_EQUAL(findings() - before, 1, "eviction verifies");
    for (uint64_t bytes = 16; bytes <= 256; bytes += 16)
        for (uint64_t at = 0; at < bytes; at++) {
            unsigned char memory[256] __attribute__((aligned(16)));
            memset(memory, ZG_FILL_FREED, sizeof memory);
            CHECK(zg_fill_is_intact(memory, bytes), "intact");
            memory[at] = 0;
            CHECK(!zg_fill_is_intact(memory, bytes), "changed");
        }
}

static int stop;

static void *churn(void *seed) {
    uint64_t state = (uint64_t)seed;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t r = work_random(&state);
        void *block = heap_allocate(r % 50 ? r % 900 : r % 200000, 16, r >> 63);
        if (block) memset(block, 0x5a, r % 50 ? r % 900 : r % 200000);
        heap_free(block);
    }
    return NULL;
}

static void check_concurrent(void) {
    pthread_t threads[2];
    uint64_t before = findings();
    for (uint64_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < 300; i++) zg_quarantine_verify_all("test");
    for (int i = 0; i < 50; i++) trim();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(findings() - before, 0, "verification beside frees finds nothing that is not there");
}

enum { THREADS = 3, ROUNDS = 20000 };

static void *free_many(void *unused) {
    for (int i = 0; i < ROUNDS; i++) busy(1000);
    return unused;
}

// Each thread has its own part of the quarantine, and adds the changes of its counts to the totals now and then.
static void check_counts(void) {
    pthread_t threads[THREADS];
    trim();
    uint64_t before = zg_stats_get(zg_counter_evictions);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, free_many, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(zg_quarantine_bytes() <= zg_config.quarantine_bytes, "several threads keep to the limit, too");
    trim();
    CHECK_EQUAL(zg_quarantine_bytes(), 0, "after a trim, no thread owes bytes");
    CHECK_EQUAL(zg_stats_get(zg_counter_quarantined_blocks), 0, "or blocks");
    uint64_t evictions = zg_stats_get(zg_counter_evictions) - before;
    CHECK(evictions >= THREADS * ROUNDS, "or evictions");
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "on_finding=continue:report_path=/dev/null:isolated_per_context=0:quarantine_bytes=1000k",
           1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    check_cap();
    check_fairness();
    check_large_first();
    check_empty_ones();
    check_order();
    check_fill();
    check_changes();
    check_concurrent();
    check_counts();
    return check_end();
}
