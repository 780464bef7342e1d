// Blocks are freed among the last slots of a size class, where the memory behind them is not accessible yet.
// options: quarantine_bytes=0:isolated_overhead=100%:isolated_per_context=0
// musl: musl has no malloc_trim

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 60000 };

static void fill_class(size_t size) {
    static char *blocks[COUNT];
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = memset(malloc(size), 1, size);
        if (i % 97 == 0) malloc_trim(0);
        if (i < 300 || i % 7) continue;
        free(blocks[i - 3]);
        blocks[i - 3] = NULL;
    }
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
}

int main(void) {
    fill_class(48);
    fill_class(64);
    fill_class(112);
    puts("done");
    return 0;
}
