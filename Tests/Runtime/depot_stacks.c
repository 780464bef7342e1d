// Stack depot: equal stacks have equal ids, outer frames are shared, millions of nodes fit, and memory stays bounded.
// link: runtime
// options: stack_bytes=4g

#include <pthread.h>
#include <string.h>

#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"

enum { DEPTH = 10 };

static void make_stack(uint64_t number, uint64_t *frames) {
    for (int i = 0; i < DEPTH; i++) frames[i] = 0x400000 + (zg_mix(number >> (i * 2)) & 0xffffffffff);
}

static uint64_t node_count(void) {
    uint64_t count;
    zg_depot_nodes(&count);
    return count;
}

static void check_basics(void) {
    uint64_t frames[] = {0x1001, 0x1002, 0x1003, 0x1004}, read[8];
    CHECK_EQUAL(zg_depot_put(frames, 0), 0, "no frames: the unknown stack");
    CHECK_EQUAL(zg_depot_get(0, read, 8), 0, "which has no frames");
    uint32_t whole = zg_depot_put(frames, 4);
    CHECK(whole && zg_depot_put(frames, 4) == whole, "an equal stack has the same id");
    CHECK_EQUAL(zg_depot_get(whole, read, 8), 4, "a stack comes back whole");
    CHECK(memcmp(read, frames, sizeof frames) == 0, "with its frames in order");
    CHECK_EQUAL(zg_depot_get(whole, read, 2), 2, "or its innermost frames only");
    CHECK(read[0] == 0x1001 && read[1] == 0x1002, "which are the first");
    uint64_t before = node_count();
    uint32_t outer = zg_depot_put(frames + 1, 3);
    CHECK(outer && outer != whole, "a shorter stack is another one");
    CHECK_EQUAL(node_count(), before, "and shares the nodes");
    uint64_t sibling[] = {0x2001, 0x1002, 0x1003, 0x1004};
    uint32_t other = zg_depot_put(sibling, 4);
    CHECK(other != whole && other != outer, "another innermost frame is another stack");
    CHECK_EQUAL(node_count(), before + 1, "that costs one node");
    uint64_t swapped[] = {0x1002, 0x1001, 0x1003, 0x1004};
    CHECK(zg_depot_put(swapped, 4) != whole, "order counts");
    // At each frame of the first stack, put a stack that branches off there and a stack that ends there.
    for (int i = 0; i < 4; i++) {
        uint64_t branch[] = {0x3001, 0x3002, frames[i], frames[(i + 1) & 3], frames[(i + 2) & 3], frames[(i + 3) & 3]};
        before = node_count();
        uint32_t id = zg_depot_put(branch, 6 - i);
        CHECK_EQUAL(node_count(), before + 2, "a stack that leaves a known one costs its own frames");
        CHECK(zg_depot_put(branch, 6 - i) == id && zg_depot_put(branch + 1, 5 - i) != id, "and is found again");
        CHECK_EQUAL(zg_depot_get(id, read, 8), 6 - i, "with all frames");
        CHECK(memcmp(read, branch, (size_t)(6 - i) * sizeof *branch) == 0, "in order");
        CHECK(zg_depot_put(branch + 2, 4 - i) == zg_depot_put(frames + i, 4 - i),
              "outside of which it is the known one");
        CHECK_EQUAL(node_count(), before + 2, "without another node");
    }
    uint64_t repeated[] = {0x1001, 0x1001}, once[] = {0x1001};
    CHECK(zg_depot_put(repeated, 2) != zg_depot_put(once, 1), "repetition counts");
    CHECK_EQUAL(zg_depot_get(UINT32_MAX, read, 8), 0, "an id that nobody gave has no frames");
}

static void check_growth(void) {
    uint64_t frames[DEPTH], read[DEPTH + 2], wrong = 0, stacks = 0;
    static uint32_t ids[1 << 20];
    while (node_count() < 2000000 && stacks < 1 << 20) {
        make_stack(stacks * 7919, frames);
        ids[stacks++] = zg_depot_put(frames, DEPTH);
    }
    CHECK(node_count() >= 2000000, "two million nodes");
    CHECK(zg_stats_get(zg_counter_stack_bytes) <= node_count() * 32,
          "which take 32 bytes each at the most, tables included");
    for (uint64_t i = 0; i < stacks; i++) {
        make_stack(i * 7919, frames);
        wrong += !ids[i] || zg_depot_put(frames, DEPTH) != ids[i];
        wrong += zg_depot_get(ids[i], read, DEPTH + 2) != DEPTH || memcmp(read, frames, sizeof frames) != 0;
    }
    CHECK_EQUAL(wrong, 0, "every one of them is found again");
}

enum { SHARED = 60000 };
static uint32_t shared_ids[2][SHARED];

static void *put_all(void *which) {
    uint64_t frames[DEPTH], self = (uint64_t)which;
    for (uint64_t i = 0; i < SHARED; i++) {
        uint64_t number = self ? SHARED - 1 - i : i; // one thread starts from each end
        make_stack(number * 104729 + (UINT64_C(1) << 50), frames);
        shared_ids[self][number] = zg_depot_put(frames, DEPTH);
    }
    return NULL;
}

static void check_threads(void) {
    pthread_t threads[2];
    uint64_t frames[DEPTH], read[DEPTH], wrong = 0;
    for (uint64_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, put_all, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < SHARED; i++) {
        make_stack(i * 104729 + (UINT64_C(1) << 50), frames);
        wrong += !shared_ids[0][i] || shared_ids[0][i] != shared_ids[1][i];
        wrong += zg_depot_get(shared_ids[0][i], read, DEPTH) != DEPTH || memcmp(read, frames, sizeof frames) != 0;
    }
    CHECK_EQUAL(wrong, 0, "two threads that put the same stacks get the same ids");
}

// One thread puts stacks. Another thread looks up stacks that are never put, but whose hashes lead to the same place of
// the table. The lookup must find nothing, even while that place is being filled.
enum { FAMILIES = 200000 };
static uint64_t family; // the family of the stacks that are put and looked up

static uint64_t outer_hash_of(uint64_t number, uint64_t *outer) {
    *outer = 0x500000 + number * 64;
    return zg_depot_hash(0, *outer);
}

static void *put_families(void *unused) {
    for (uint64_t number = 0; number < FAMILIES; number++) {
        uint64_t frames[] = {0x700000, 0};
        outer_hash_of(number, &frames[1]);
        zg_store(&family, number);
        zg_depot_put(frames, 2);
    }
    zg_store(&family, UINT64_MAX);
    return unused;
}

static void check_questions_meanwhile(void) {
    pthread_t thread;
    uint64_t wrong = 0, outer, number;
    pthread_create(&thread, NULL, put_families, NULL);
    while ((number = zg_load(&family)) != UINT64_MAX) {
        uint64_t outer_hash = outer_hash_of(number, &outer), frame = 0x800000;
        uint64_t place = zg_depot_hash(outer_hash, 0x700000) % 8; // a family's cache line has 8 places
        while (zg_depot_hash(outer_hash, frame) % 8 != place) frame++;
        uint64_t hash = zg_depot_hash(outer_hash, frame);
        while (zg_load(&family) == number) wrong += zg_depot_find(hash, outer_hash) != 0;
    }
    pthread_join(thread, NULL);
    CHECK_EQUAL(wrong, 0, "a stack that nobody has put has no id, also while another is put in its place");
}

enum { WHOLE = 32, MEBIBYTE = 1 << 20 };

// Checks how many frames of a new stack are recorded, depending on the used share of stack_bytes and past captures.
static void check_depth(void) {
    uint64_t nodes = node_count(), saved = zg_config.stack_bytes;
    const int captures_per_node = 64;
    CHECK_EQUAL(zg_depot_depth(0, WHOLE), WHOLE, "with room left a stack is whole");
    zg_config.stack_bytes = nodes * 64 * 4; // a quarter is used: more than the eighth for whole stacks
    CHECK(zg_depot_depth(0, WHOLE) < WHOLE, "stacks that have not repeated are shortened");
    CHECK(zg_stats->degradations >> zg_degradation_stacks_shortened & 1, "and the statistics say so");
    CHECK_EQUAL(zg_depot_depth(0, 3), zg_depot_depth(0, WHOLE) < 3 ? zg_depot_depth(0, WHOLE) : 3, "none gets longer");
    CHECK_EQUAL(zg_depot_depth(nodes * captures_per_node, WHOLE), WHOLE,
                "after many captures that did, new ones are whole");
    zg_config.stack_bytes = nodes * 64 * 3 / 2; // two thirds are used: more than the half for whole stacks
    int last = WHOLE;
    CHECK(zg_depot_depth(UINT64_C(1) << 40, WHOLE) < WHOLE,
          "half of the bound is for shortened stacks, whatever was captured");
    for (int eighths = 16; eighths >= 8; eighths--) {
        zg_config.stack_bytes = nodes * 64 * (uint64_t)eighths / 8;
        int depth = zg_depot_depth(UINT64_C(1) << 40, WHOLE);
        CHECK(depth <= last && depth >= 1, "the fuller the depot, the fewer frames, but never none");
        last = depth;
    }
    CHECK_EQUAL(last, 1, "one at last");
    zg_config.stack_bytes = saved;
}

static void check_bound(void) {
    uint64_t frames[DEPTH], refused = 0, lost = 0, before = zg_stats_get(zg_counter_stack_bytes);
    zg_config.stack_bytes = before + 8 * (uint64_t)MEBIBYTE;
    for (uint64_t i = 0; i < 400000; i++) {
        make_stack(i * 15485863 + (UINT64_C(1) << 55), frames);
        if (zg_depot_put(frames, DEPTH)) continue;
        refused++;
        lost += !zg_depot_put(frames, 1);
    }
    CHECK(refused > 0, "past its bound the depot takes no more whole stacks");
    CHECK(lost < refused, "but single frames, as long as its tables have room");
    CHECK(zg_stats_get(zg_counter_stack_bytes) <= zg_config.stack_bytes + 400000 * 24, "and the tables do not grow");
    CHECK_EQUAL(zg_stats_get(zg_counter_stack_nodes), node_count() - 1, "the statistics count the nodes");
    make_stack(7919, frames);
    CHECK(zg_depot_put(frames, DEPTH), "what it had, it still has");
}

int main(void) {
    if (!CHECK(zg_ready(), "the depot is reserved")) return check_end();
    check_basics();
    check_growth();
    check_threads();
    check_questions_meanwhile();
    check_depth();
    check_bound();
    return check_end();
}
