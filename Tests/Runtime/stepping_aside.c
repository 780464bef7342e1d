// A thread in bypass allocates from libc, uncounted; heap blocks that it frees are freed as always.
// link: runtime
// options: isolated_per_context=0:on_finding=continue
// warning: ==zguard==

#include "include/zg_api.h"

#include <pthread.h>

#include "check.h"
#include "entry/entry.h"
#include "heap_calls.h"

enum { SIZE = 100, BLOCKS = 200, MOST_DEFERRED = 64 };

#define FRAME ZG_ARCH_FRAME()

static char *blocks[BLOCKS];

static ZG_NOINLINE char *made(uint64_t size) { return zg_entry_malloc(size, FRAME); }
static bool is_live(const void *block) { return zg_api_own()->is_live((uint64_t)block); }
static uint64_t counted(void) {
    zg_thread_flush_counters(zg_thread_current_or_null());
    return zg_stats_get(zg_counter_allocations) + zg_stats_get(zg_counter_unguarded_allocations) +
           zg_stats_get(zg_counter_contexts);
}

static void *on_another_thread(void *unused) {
    (void)unused;
    char *block = made(SIZE);
    CHECK(is_live(block), "another thread's blocks are guarded meanwhile");
    zg_entry_plain_free(block, FRAME);
    return NULL;
}

static void check_aside(void) {
    char *mine[BLOCKS];
    uint64_t before = counted();
    for (int i = 0; i < BLOCKS; i++) {
        mine[i] = made(SIZE + (uint64_t)i * 50);
        CHECK(!is_live(mine[i]), "what is allocated aside is libc's");
        CHECK(zg_entry_usable_size(mine[i], FRAME) >= SIZE, "and has a size");
        mine[i] = zg_entry_reallocate(mine[i], 3 * SIZE + (uint64_t)i * 50, FRAME);
        CHECK(mine[i] && !is_live(mine[i]), "also after it has grown");
    }
    CHECK_EQUAL(counted(), before, "it is counted nowhere");
    for (int i = 0; i < BLOCKS; i++) zg_entry_plain_free(mine[i], FRAME);

    // Free more blocks than a signal handler may defer.
    CHECK(BLOCKS > 2 * MOST_DEFERRED, "many");
    for (int i = 0; i < BLOCKS - 1; i++) zg_entry_plain_free(blocks[i], FRAME);
    char *moved = zg_entry_reallocate(blocks[BLOCKS - 1], 2 * SIZE, FRAME);
    CHECK(moved && !is_live(moved) && moved[SIZE - 1] == 'x', "a block of the heap's moves to libc");
    zg_entry_plain_free(moved, FRAME);
    for (int i = 0; i < BLOCKS; i++) CHECK(!is_live(blocks[i]), "blocks of the heap's are freed at once");
}

int main(void) {
    zg_runtime_start();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = made(SIZE);
            CHECK(is_live(blocks[i]), "blocks are guarded");
            memset(blocks[i], 'x', SIZE);
        }
        zg_api_own()->step_aside();
        zg_api_own()->step_aside();
        char *kept = made(SIZE);
        check_aside();
        zg_api_own()->step_back();
        char *still = made(SIZE);
        CHECK(!is_live(still), "as many steps back as aside");
        pthread_t other;
        CHECK_EQUAL(pthread_create(&other, NULL, on_another_thread, NULL), 0, "a thread");
        pthread_join(other, NULL);
        zg_api_own()->step_back();
        zg_api_own()->step_back(); // one call too many has no effect
        zg_entry_plain_free(kept, FRAME);
        zg_entry_plain_free(still, FRAME);
        char *block = made(SIZE);
        CHECK(is_live(block), "blocks are guarded again");
        zg_entry_plain_free(block, FRAME);
        CHECK_EQUAL(zg_stats_get(zg_counter_findings), 0, "nothing is found");
    }
    // Bugs are found in bypass as well.
    char *block = made(SIZE);
    zg_api_own()->step_aside();
    zg_entry_plain_free(block, FRAME);
    zg_api_own()->step_back();
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), 0, "nothing is found yet");
    CHECK(zg_api_own()->verify() == 0, "freed blocks are whole");
    block[3] = 1;
    CHECK_EQUAL(zg_api_own()->verify(), 1, "a write into what was freed aside is found");
    return check_end();
}
