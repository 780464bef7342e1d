// As forgotten_twice, and one of them is to grow.
// finding: invalid-free
// access: free
// stack-access: grow_again
// options: fence_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: what="free memory" freed_with="realloc"

#include <malloc.h>

#include "../bug.h"

enum { COUNT = 200000, BYTES = 112 };

FRAME char *grow_again(char *block) {
    char *grown = realloc(block, 300);
    KEEP_FRAME();
    return grown;
}

int main(void) {
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    char *block = blocks[COUNT / 8];
    puts("given back");
#ifdef FIXED
    block = malloc(BYTES);
#endif
    free(grow_again(block));
    return 0;
}
