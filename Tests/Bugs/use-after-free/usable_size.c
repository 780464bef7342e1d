// malloc_usable_size gets a freed block.
// finding: use-after-free
// access: read
// block: size=48 offset=0
// stack-access: room_in
// stack-free: drop
// stack-alloc: make
// exit: 99
// confidence: exact
// detail: call="malloc_usable_size"

#include <malloc.h>

#include "../bug.h"

FRAME char *make(void) {
    char *block = malloc(48);
    KEEP_FRAME();
    return block;
}

FRAME void drop(char *block) {
    free(block);
    KEEP_FRAME();
}

FRAME size_t room_in(char *block) {
    size_t room = malloc_usable_size(block);
    KEEP_FRAME();
    return room;
}

int main(void) {
    char *block = make();
#ifdef FIXED
    printf("%d\n", room_in(block) >= 48);
    drop(block);
#else
    drop(block);
    printf("%d\n", room_in(block) >= 48);
#endif
    return 0;
}
