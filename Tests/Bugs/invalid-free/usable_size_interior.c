// malloc_usable_size gets an interior pointer.
// finding: invalid-free
// access: read
// block: size=48 offset=16 state=live
// stack-access: room_in
// stack-alloc: make
// exit: 99
// confidence: exact
// detail: call="malloc_usable_size" what="interior pointer"

#include <malloc.h>

#include "../bug.h"

FRAME char *make(void) {
    char *block = malloc(48);
    KEEP_FRAME();
    return block;
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
#else
    printf("%d\n", room_in(block + 16) < 100000);
#endif
    free(block);
    return 0;
}
