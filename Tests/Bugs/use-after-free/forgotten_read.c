// A freed block is read after the runtime has discarded the block's records.
// finding: use-after-free
// access: read
// stack-access: look_again
// options: isolated_per_context=0:retired_bytes=64k
// exit: 139
// confidence: inferred
// detail: what="free memory"
// guard-pages: without them what nothing is known of any more is not kept closed (retire.c)
// musl: musl has no malloc_trim

#include "../forgotten.h"

FRAME char look_again(const char *block) {
    char first = *block;
    KEEP_FRAME();
    return first;
}

int main(void) {
    char *block = forgotten_block();
#ifdef FIXED
    block = calloc(1, BYTES);
#endif
    printf("%d\n", look_again(block));
    return 0;
}
