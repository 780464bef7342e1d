// Many blocks die, their memory is given back with all that was known of them, and one of them is read.
// finding: use-after-free
// access: read
// stack-access: look_again
// options: fence_per_context=0:retired_bytes=64k
// exit: 139
// confidence: inferred
// detail: what="free memory"

#include <malloc.h>

#include "../bug.h"

enum { COUNT = 200000, BYTES = 112 };

FRAME char look_again(const char *block) {
    char first = *block;
    KEEP_FRAME();
    return first;
}

int main(void) {
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    char *block = blocks[COUNT / 8];
    puts("given back");
#ifdef FIXED
    block = calloc(1, BYTES);
#endif
    printf("%d\n", look_again(block));
    return 0;
}
