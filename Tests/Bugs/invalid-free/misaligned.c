// An odd integer, used as a pointer, is freed.
// finding: invalid-free
// access: free
// stack-access: drop_handle
// exit: 134
// confidence: exact
// detail: what="misaligned|never allocated"

#include "../bug.h"

FRAME void drop_handle(void *handle) {
    free(handle);
    KEEP_FRAME();
}

int main(void) {
    void *handle = (void *)0x7654321;
#ifdef FIXED
    handle = malloc(8);
#endif
    puts("handle");
    drop_handle(handle);
    return 0;
}
