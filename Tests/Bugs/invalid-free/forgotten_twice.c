// Many blocks die, their memory is given back with all that was known of them, and one of them is freed again.
// finding: invalid-free
// access: free
// stack-access: drop_again
// options: fence_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: what="free memory"

#include <malloc.h>

#include "../bug.h"

enum { COUNT = 200000, BYTES = 112 };

FRAME void drop_again(char *block) {
    free(block);
    KEEP_FRAME();
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
    drop_again(block);
    return 0;
}
