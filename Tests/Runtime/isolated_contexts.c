// Without windows, the first blocks of each context are isolated, and few later ones; each test gets a full budget.
// link: runtime
// options: isolated_overhead=100%:isolated_windows=off

#include "include/zg_api.h"

#include "check.h"
#include "heap_calls.h"

enum { SIZE = 100, LATER = 400 };

HEAP_PLACE(made_here, SIZE)
HEAP_PLACE(made_there, SIZE)

static bool is_isolated(const char *block) {
    struct zg_block_view view;
    return zg_lookup_block((uint64_t)block, &view) && zg_lookup_is_isolated(&view);
}

static void check_context(char *(*make)(void)) {
    uint64_t isolated = 0, later = 0, count = zg_config.isolated_per_context;
    for (uint64_t i = 0; i < count + LATER; i++) {
        char *block = make();
        *(i < count ? &isolated : &later) += is_isolated(block);
        heap_free(block);
    }
    CHECK_EQUAL(isolated, count, "a context's first blocks are isolated");
    CHECK(later < LATER / 4, "most of the later ones have not");
}

int main(void) {
    zg_runtime_start();
    CHECK(zg_config.isolated_per_context > 1 && zg_config.isolated_per_context < 100, "a few of each context");
    for (int test = 0; test < 4; test++) {
        if (test) zg_api_own()->begin_test();
        check_context(made_here);
        check_context(made_there);
        CHECK_EQUAL(zg_stats_get(zg_counter_contexts), 2, "a context is counted once");
        CHECK_EQUAL(zg_stats_get(zg_counter_contexts_fenced), 2, "and once as isolated");
    }
    return check_end();
}
