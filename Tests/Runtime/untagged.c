// Profile mte: the statistics count tagged blocks. Without memory tagging it acts as profile guard and reports that.
// link: runtime
// options: profile=mte:isolated_per_context=0
// warning: no memory tagging

#include "blocks/tags.h"
#include "check.h"
#include "heap_calls.h"

enum { SIZE = 100, BLOCKS = 50 };

int main(void) {
    zg_runtime_start();
    bool is_degraded = zg_stats->degradations >> zg_degradation_no_memory_tags & 1;
    CHECK(zg_arch_has_tags() == zg_tags_are_on(), "tags are used where the processor has them");
    CHECK(is_degraded != zg_tags_are_on(), "a degradation says that there are none");
    for (int i = 0; i < BLOCKS; i++) {
        char *block = heap_allocate(SIZE, 16, i % 2);
        CHECK((zg_arch_tag((uint64_t)block) != 0) == zg_tags_are_on(), "pointers have tags where tags are used");
        CHECK(zg_lookup_is_in_heap((uint64_t)block), "guarded");
        for (int j = 0; j < SIZE; j++) block[j] = (char)i;
        zg_entry_plain_free(block, HEAP_FRAME);
    }
    zg_thread_flush_counters(zg_thread_current_or_null());
    CHECK_EQUAL(zg_stats_get(zg_counter_tagged_blocks), zg_tags_are_on() ? BLOCKS : 0, "tagged blocks are counted");
    return check_end();
}
