// Quarantine: by default its limit is a 16th of the most live memory so far, from 256 KiB to 1 MiB.
// link: runtime

#include <stdlib.h>

#include "check.h"
#include "heap/quarantine.h"
#include "heap_calls.h"
#include "process/ready.h"
#include "process/thread_entry.h"

enum { KIB = 1 << 10, MIB = 1 << 20, PIECE = 16 * KIB };

static void free_many(uint64_t bytes) {
    for (uint64_t freed = 0; freed < bytes; freed += KIB) heap_free(heap_allocate(KIB, 16, false));
}

static void check_limit(uint64_t least, uint64_t most, const char *text) {
    free_many(4 * MIB);
    uint64_t held = zg_quarantine_bytes();
    CHECK(held <= most, text);
    CHECK(held >= least, "and it is used");
    CHECK(zg_stats_get(zg_counter_quarantine_cap) <= most, "the statistics have the limit of now");
}

// Frees one block in each of 64 contexts (call sites). Each block is its context's newest, so the queue stays empty.
#define ONE heap_free(heap_allocate(8 * KIB, 16, false));
#define EIGHT ONE ONE ONE ONE ONE ONE ONE ONE
static void check_rows(void) {
    // The counter may lack the evictions of the last 16 flushes. A flush has 64 blocks, the limit of 256 KiB 32 blocks.
    enum { ROUNDS = 400, UNCOUNTED_FLUSHES = 16 };
    uint64_t before = zg_stats_get(zg_counter_evictions);
    for (int round = 0; round < ROUNDS; round++) {
        EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT
    }
    CHECK(zg_quarantine_bytes() <= 256 * KIB, "blocks that are the newest of their contexts leave, too");
    CHECK(zg_stats_get(zg_counter_evictions) - before >= (ROUNDS - UNCOUNTED_FLUSHES - 1) * 64 - 32,
          "as many as were freed before");
}

int main(void) {
    static void *live[32 * MIB / PIECE];
    setenv("ZGUARD_OPTIONS", "report_path=/dev/null:isolated_per_context=0", 1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    check_rows();
    check_limit(200 * KIB, 256 * KIB, "in a small program 256 KiB");
    for (int i = 0; i < 8 * MIB / PIECE; i++) live[i] = heap_allocate(PIECE, 16, false);
    check_limit(400 * KIB, 544 * KIB, "with 8 MiB a 16th of it");
    for (int i = 8 * MIB / PIECE; i < 32 * MIB / PIECE; i++) live[i] = heap_allocate(PIECE, 16, false);
    check_limit(900 * KIB, MIB, "with 32 MiB 1 MiB");
    for (int i = 0; i < 32 * MIB / PIECE; i++) heap_free(live[i]);
    check_limit(900 * KIB, MIB, "the most live memory so far counts");
    return check_end();
}
