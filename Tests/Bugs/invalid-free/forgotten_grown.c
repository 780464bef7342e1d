// A freed block is passed to realloc after the runtime has discarded the block's records.
// finding: invalid-free
// access: free
// stack-access: grow_again
// options: isolated_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: what="free memory" freed_with="realloc"
// musl: musl has no malloc_trim

#include "../forgotten.h"

FRAME char *grow_again(char *block) {
    char *grown = realloc(block, 300);
    KEEP_FRAME();
    return grown;
}

int main(void) {
    char *block = forgotten_block();
#ifdef FIXED
    block = malloc(BYTES);
#endif
    free(grow_again(block));
    return 0;
}
