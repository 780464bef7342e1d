// If no mappings are left for the contents of freed blocks, new isolated blocks reuse the oldest freed blocks' pages.
// qemu-user: /proc/self/maps shows the emulator's mappings, not the kernel's
// link: runtime
// also: protect=mprotect:isolated_windows=off retired_bytes=1m protect=mprotect:retired_bytes=1m
// options: profile=fence:on_finding=continue:mappings=1000

#include "check.h"
#include "heap_calls.h"

#include <string.h>

enum { BLOCKS = 6000, MAPPINGS = 1000, OTHERS = 300 };

static int count_mappings(void) {
    static char text[1 << 16];
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    if (!file) return -1;
    for (size_t count; (count = fread(text, 1, sizeof text, file)) != 0;)
        for (size_t i = 0; i < count; i++) lines += text[i] == '\n';
    fclose(file);
    return lines;
}

int main(void) {
    zg_runtime_start();
    int isolated = 0, most = 0;
    char *newest = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        // Blocks of one to five pages. A freed range is reused only for blocks of as many pages, so the size changes
        // only every 1000 blocks.
        char *block = heap_allocate(100 + (uint64_t)(i / 1000) % 5 * 4096, 16, false);
        struct zg_block_view view;
        isolated += zg_lookup_block((uint64_t)block, &view) && zg_lookup_is_isolated(&view);
        memset(block, 'x', 100);
        heap_free(newest = block);
        int now = i % 500 ? 0 : count_mappings();
        most = now > most ? now : most;
    }
    CHECK_EQUAL(isolated, BLOCKS, "every block is isolated");
    CHECK(most <= MAPPINGS + OTHERS, "their mappings stay within the limit");
    if (most > MAPPINGS + OTHERS) fprintf(stderr, "%d mappings\n", most);
    CHECK_EQUAL(heap_state_of(newest), zg_state_retired, "the newest dead block is kept");
    CHECK(!(zg_stats->degradations >> zg_degradation_mappings_spent & 1), "nothing went without protection");
    return check_end();
}
