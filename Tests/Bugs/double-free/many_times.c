// A hundred thousand equal double frees, in one place of one process: one finding, and the number.
// finding: double-free
// access: free
// block: size=40 offset=0
// stack-access: drop_again
// stack-free: drop
// stack-alloc: make
// exit: 99
// confidence: exact
// options: on_finding=continue
// count: 100000

#include "../bug.h"

FRAME void *make(void) {
    void *block = malloc(40);
    KEEP_FRAME();
    return block;
}

FRAME void drop(void *block) {
    free(block);
    KEEP_FRAME();
}

FRAME void drop_again(void *block) {
    free(block);
    KEEP_FRAME();
}

int main(void) {
    for (int i = 0; i < 100000; i++) {
        void *block = make();
        drop(block);
#ifndef FIXED
        drop_again(block);
#endif
    }
    return 0;
}
