// A freed block is passed to malloc_usable_size after the runtime has discarded the block's records.
// finding: invalid-free
// access: read
// stack-access: room_in
// options: isolated_per_context=0:retired_bytes=64k
// exit: 99
// confidence: exact
// detail: call="malloc_usable_size" what="free memory"
// musl: musl has no malloc_trim

#include "../forgotten.h"

FRAME size_t room_in(char *block) {
    size_t room = malloc_usable_size(block);
    KEEP_FRAME();
    return room;
}

int main(void) {
    char *block = forgotten_block();
#ifdef FIXED
    block = malloc(BYTES);
#endif
    printf("%d\n", room_in(block) < 100000);
    return 0;
}
