// Long-lived blocks lie apart from short-lived ones, so that fewer windows stay mapped because of a single block.
// link: runtime
// options: profile=fence:isolated_windows=all

#include "check.h"
#include "heap_calls.h"
#include "pages/window.h"

enum { BLOCKS = 64000, EVERY = 8, WAITING = 64, SIZE = 100 };

HEAP_PLACE(make_lasting, SIZE)
HEAP_PLACE(make_passing, SIZE)

static char *lasting[BLOCKS / EVERY], *passing[WAITING];

// Keeps every eighth block. Returns the number of mappings that windows then have.
static uint64_t run(char *(*make)(void), char *(*make_one_of_eight)(void)) {
    uint64_t before = zg_stats_get(zg_counter_protected_mappings);
    for (int i = 0; i < BLOCKS; i++) {
        bool lasts = i % EVERY == 0;
        char *block = (lasts ? make_one_of_eight : make)(), **place = &passing[i % WAITING];
        if (lasts) {
            lasting[i / EVERY] = block;
            continue;
        }
        if (*place) heap_free(*place);
        *place = block;
    }
    for (int i = 0; i < WAITING; i++)
        if (passing[i]) heap_free(passing[i]), passing[i] = NULL;
    zg_window_flush();
    uint64_t taken = zg_stats_get(zg_counter_protected_mappings) - before;
    for (int i = 0; i < BLOCKS / EVERY; i++) heap_free(lasting[i]);
    zg_window_flush();
    return taken;
}

int main(void) {
    zg_runtime_start();
    uint64_t mixed = run(make_passing, make_passing), apart = run(make_passing, make_lasting);
    if (!zg_window_may_be()) return check_end(); // this kernel has no windows
    CHECK(apart * 2 < mixed,
          "blocks that last take less than half of the windows when their stack tells them from others");
    // Swap the roles of the stacks: the runtime has to replace their lifetime records.
    apart = run(make_lasting, make_passing);
    CHECK(apart * 2 < mixed, "and when the stacks have changed their parts");
    return check_end();
}
