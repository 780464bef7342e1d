// Buffers of system calls: what the runtime records before the call, and when it reports a finding.
// link: runtime
// options: on_finding=continue:isolated_per_context=0
// warning: ==zguard==

#include "entry/calls.h"
#include "process/thread_entry.h"

#include <errno.h>
#include <string.h>

#include "blocks/slab.h"
#include "check.h"
#include "heap_calls.h"

static const struct zg_call reading = {"write", false}, writing = {"read", true};

static struct zg_call_watch fresh_watch(void) {
    struct zg_call_watch watch;
    memset(&watch, 0xee, sizeof watch);
    watch.limit = ZG_CALL_ANY;
    watch.target = NULL;
    return watch;
}

static void look_at_live_blocks(void) {
    static const uint64_t sizes[] = {1, 16, 100, 4000, 40000, 3000000};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(sizes); i++) {
        uint64_t size = sizes[i], start = (uint64_t)heap_allocate(size, 16, false);
        struct zg_block_view view;
        struct zg_call_watch watch = fresh_watch();
        CHECK(zg_call_look(&reading, start, size, 0, &view, &watch), "all of it");
        CHECK(zg_call_look(&reading, start + size - 1, 1, 0, &view, &watch), "its last byte");
        CHECK(zg_call_look(&reading, start + size, 0, 0, &view, &watch), "nothing behind it");
        CHECK_EQUAL(watch.limit, ZG_CALL_ANY, "no limit for what fits");
        CHECK(!watch.target, "no target where the kernel reads");
        CHECK(zg_call_look(&reading, start + size / 2, size + 5, 30, &view, &watch), "over its end");
        CHECK_EQUAL(watch.limit, 30 + size - size / 2, "limit");
        CHECK_EQUAL(watch.room, size - size / 2, "room");
        CHECK_EQUAL(watch.address, start + size / 2, "address");
        CHECK_EQUAL(watch.block.start, start, "start");
        CHECK(zg_call_look(&reading, start, size + 1, 1000, &view, &watch), "a second one");
        CHECK_EQUAL(watch.limit, 30 + size - size / 2, "the first one counts");
        watch = fresh_watch();
        CHECK(zg_call_look(&writing, start, UINT64_MAX, 0, &view, &watch), "more than there is");
        CHECK_EQUAL(watch.limit, size, "limit of a huge length");
        CHECK(watch.target && watch.first == start, "target where the kernel writes");
        heap_free((void *)start);
    }
}

// A program may pass adjacent blocks as one buffer, as long as all of them are live.
static void look_at_joined_blocks(void) {
    enum { COUNT = 64, SIZE = 4096 };
    char *blocks[COUNT], *first = NULL;
    for (int i = 0; i < COUNT; i++) blocks[i] = heap_allocate(SIZE, 16, false);
    for (int i = 0; i < COUNT && !first; i++) {
        int followers = 0;
        for (int j = 0; j < COUNT; j++) followers += blocks[j] == blocks[i] + SIZE || blocks[j] == blocks[i] + 2 * SIZE;
        if (followers == 2) first = blocks[i];
    }
    CHECK(first, "three blocks in a row");
    struct zg_block_view view;
    struct zg_call_watch watch = fresh_watch();
    uint64_t start = (uint64_t)first;
    CHECK(zg_call_look(&reading, start + 100, 3 * SIZE - 100, 0, &view, &watch), "all three");
    CHECK(zg_call_look(&writing, start, SIZE + 1, 0, &view, &watch), "one byte of the second");
    CHECK(zg_call_look(&reading, start + SIZE, 2 * SIZE, 0, &view, &watch), "the last two");
    CHECK_EQUAL(watch.limit, ZG_CALL_ANY, "no limit within a row");
    heap_free(first + 2 * SIZE);
    CHECK(zg_call_look(&reading, start + 100, 3 * SIZE - 100, 7, &view, &watch), "the last one is dead");
    CHECK_EQUAL(watch.limit, 7 + 2 * SIZE - 100, "limit of a row");
    CHECK_EQUAL(watch.block.start, start, "the first of the row");
    // A block that does not fill its slot ends a row of adjacent blocks.
    char *short_one = heap_allocate(SIZE - 8, 16, false);
    watch = fresh_watch();
    CHECK(zg_call_look(&reading, (uint64_t)short_one, SIZE, 0, &view, &watch), "over a short block's end");
    CHECK_EQUAL(watch.limit, SIZE - 8, "limit of a short block");
    heap_free(short_one);
    for (int i = 0; i < COUNT; i++)
        if (blocks[i] != first + 2 * SIZE) heap_free(blocks[i]);
}

static void look_at_dead_blocks(void) {
    static const uint64_t sizes[] = {1, 100, 40000, 3000000};
    for (size_t i = 0; i < ZG_ARRAY_COUNT(sizes); i++) {
        uint64_t size = sizes[i], start = (uint64_t)heap_allocate(size, 16, false);
        struct zg_block_view view;
        struct zg_call_watch watch = fresh_watch();
        heap_free((void *)start);
        CHECK(!zg_call_look(&reading, start + size / 2, 1, 0, &view, &watch), "a dead block, read");
        CHECK(!zg_call_look(&writing, start, size, 0, &view, &watch), "a dead block, written");
        CHECK_EQUAL(view.start, start, "which one");
        CHECK(zg_call_look(&reading, start, 0, 0, &view, &watch), "nothing of a dead block");
        CHECK(!watch.target && watch.limit == ZG_CALL_ANY, "nothing to watch");
    }
}

static void look_elsewhere(void) {
    static char outside[10];
    struct zg_block_view view;
    struct zg_call_watch watch = fresh_watch();
    CHECK(zg_call_look(&reading, (uint64_t)outside, 1000, 0, &view, &watch), "static memory");
    CHECK(zg_call_look(&reading, 0, 1000, 0, &view, &watch), "NULL");
    CHECK(zg_call_look(&reading, UINT64_MAX, 1000, 0, &view, &watch), "the last address");
    CHECK(zg_call_look(&reading, zg_slabs.base + zg_slabs.bytes - 8, 1000, 0, &view, &watch), "never allocated");
    CHECK_EQUAL(watch.limit, ZG_CALL_ANY, "nothing to watch");
}

static uint64_t findings(void) {
    return zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed);
}

static __attribute__((noinline)) void call_with(const struct zg_call *call, void *buffer, uint64_t bytes,
                                                ssize_t result) {
    struct zg_call_watch watch;
    zg_call_begin(call, buffer, bytes, HEAP_FRAME, &watch);
    zg_call_end(call, &watch, result, HEAP_FRAME);
    __asm__ volatile("" ::: "memory");
}

static void report(void) {
    char *live = heap_allocate(100, 16, false), *dead = heap_allocate(100, 16, false);
    heap_free(dead);
    uint64_t before = findings();
    errno = 77;
    call_with(&reading, live, 100, 100);
    call_with(&writing, live, 4096, 100);
    call_with(&reading, live, 4096, 99);
    call_with(&reading, live, 4096, -1);
    CHECK_EQUAL(findings() - before, 0, "good calls");
    call_with(&reading, dead, 10, 10);
    CHECK_EQUAL(findings() - before, 1, "a dead buffer");
    call_with(&reading, live, 110, 110);
    call_with(&writing, live + 90, 4096, 11);
    CHECK_EQUAL(findings() - before, 3, "over the end");
    CHECK_EQUAL(errno, 77, "errno");
    // In a signal handler that interrupted the heap, the runtime makes no finding and does not wait.
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    call_with(&reading, dead, 10, 10);
    zg_thread_leave(thread);
    CHECK_EQUAL(findings() - before, 3, "inside the runtime");
    // In a child of vfork(), the thread-local storage is that of the parent's thread.
    int own = thread->tid;
    thread->tid++;
    call_with(&reading, dead, 10, 10);
    thread->tid = own;
    CHECK_EQUAL(findings() - before, 3, "another's thread-local storage");
    call_with(&reading, dead, 10, 10);
    CHECK_EQUAL(findings() - before, 4, "its own again");
    heap_free(live);
}

static void vectors_anywhere(void) {
    static struct iovec fixed[50];
    char *dead = heap_allocate(100, 16, false), *live = heap_allocate(100, 16, false);
    struct iovec *blocks = heap_allocate(sizeof fixed, 16, false), here[50];
    struct zg_call_watch watch;
    heap_free(dead);
    for (int i = 0; i < 50; i++) fixed[i] = (struct iovec){live, 7};
    fixed[20] = (struct iovec){live + 90, 20};
    memcpy(here, fixed, sizeof fixed);
    memcpy(blocks, fixed, sizeof fixed);
    struct iovec *places[] = {fixed, here, blocks};
    uint64_t before = findings();
    for (int i = 0; i < 3; i++) {
        zg_call_begin_vectors(&reading, places[i], 50, HEAP_FRAME, &watch);
        CHECK_EQUAL(watch.limit, 20 * 7 + 10, "limit of vectors");
        CHECK_EQUAL(findings() - before, (uint64_t)i, "live buffers");
        places[i][49].iov_base = dead;
        zg_call_begin_vectors(&writing, places[i], 50, HEAP_FRAME, &watch);
        CHECK_EQUAL(findings() - before, (uint64_t)i + 1, "a dead one");
        CHECK_EQUAL(watch.first, (uint64_t)live, "target of vectors");
    }
    zg_call_begin_vectors(&reading, fixed, 1025, HEAP_FRAME, &watch);
    zg_call_begin_vectors(&reading, fixed, -1, HEAP_FRAME, &watch);
    zg_call_begin_vectors(&reading, (void *)16, 3, HEAP_FRAME, &watch);
    zg_call_begin_vectors(&reading, (void *)UINT64_MAX, 3, HEAP_FRAME, &watch);
    zg_call_begin_message(&reading, NULL, HEAP_FRAME, &watch);
    CHECK_EQUAL(findings() - before, 3, "vectors nowhere");
    heap_free(live);
    heap_free(blocks);
}

int main(void) {
    zg_runtime_start();
    look_at_live_blocks();
    look_at_joined_blocks();
    look_at_dead_blocks();
    look_elsewhere();
    report();
    vectors_anywhere();
    return check_end();
}
