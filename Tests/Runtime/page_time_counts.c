// The time of isolated blocks counts against the budget, which limits a program that asks for ever more of them.
// link: runtime

#include <stdlib.h>

#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"

enum { BLOCKS = 100000, BYTES = 3000 };

static uint64_t isolate_many(void) {
    uint64_t before = zg_stats_get(zg_counter_fenced_blocks);
    for (int i = 0; i < BLOCKS; i++) heap_free(heap_allocate(BYTES, 16, false));
    zg_thread_flush_counters(zg_thread_current_or_null());
    return zg_stats_get(zg_counter_fenced_blocks) - before;
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "report_path=/dev/null:isolated_overhead=1:isolated_per_context=65000", 1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    uint64_t isolated = isolate_many();
    CHECK(isolated > 16, "the first blocks are isolated");
    // Measured: 700 blocks; 4,700 if the time to make and free one is not counted. A slower machine isolates fewer.
    CHECK(isolated < BLOCKS / 40, "further ones only within the budget");
    CHECK(zg_stats_get(zg_counter_fence_declined) > 0, "the others are declined");
    return check_end();
}
