// A freed block is freed again after the runtime has discarded the block's records.
// finding: invalid-free
// access: free
// stack-access: drop_again
// options: isolated_per_context=0:retired_bytes=64k
// exit: 134
// confidence: exact
// detail: what="free memory"
// musl: musl has no malloc_trim

#include "../forgotten.h"

FRAME void drop_again(char *block) {
    free(block);
    KEEP_FRAME();
}

int main(void) {
    char *block = forgotten_block();
#ifdef FIXED
    block = malloc(BYTES);
#endif
    drop_again(block);
    return 0;
}
