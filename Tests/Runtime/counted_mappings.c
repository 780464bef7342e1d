// The runtime counts the mappings that protected pages cost, and pages that are reused cost none.
// qemu-user: /proc/self/maps shows the emulator's mappings, not the kernel's
// preload
// options: protect=mprotect:retired_bytes=20m:quarantine_bytes=0

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "../../Sources/CZombie/include/zg_api.h"
#include "../../Sources/CZombie/include/zg_stats_page.h"
#include "check.h"

enum { COUNT = 200000, SIZE = 1000, STRETCH = 200, STRETCHES = 200, ROUNDS = 12 };

static uint64_t maps(void) {
    uint64_t lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; file && (c = getc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    return lines;
}

int main(void) {
    static void *blocks[COUNT];
    const struct zg_api *(*find)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    if (!CHECK(find && find(), "the library is there")) return check_end();
    for (int i = 0; i < COUNT; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    uint64_t before = maps();
    unsigned random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < STRETCHES; k++) {
            random = random * 1103515245 + 12345;
            int first = (int)((random >> 8) % (COUNT - STRETCH));
            for (int i = first; i < first + STRETCH; i++) {
                free(blocks[i]);
                blocks[i] = NULL;
            }
        }
        malloc_trim(0);
        for (int i = 0; i < COUNT; i++)
            if (!blocks[i]) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    }
    uint64_t counted = find()->statistics->counters[zg_counter_protected_mappings], after = maps();
    if (!CHECK(after <= before + counted + 40, "mappings are counted"))
        fprintf(stderr, "%ju mappings before, %ju after, %ju counted\n", (uintmax_t)before, (uintmax_t)after,
                (uintmax_t)counted);
    return check_end();
}
