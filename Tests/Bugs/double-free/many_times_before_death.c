// Equal double frees until a fault ends the process: what was counted is written before it dies.
// finding: double-free
// access: free
// block: size=40 offset=0
// stack-access: drop_again
// stack-free: drop
// stack-alloc: make
// exit: 139
// confidence: exact
// options: on_finding=continue
// count: 1234

#include <signal.h>

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
    for (int i = 0; i < 1234; i++) {
        void *block = make();
        drop(block);
#ifndef FIXED
        drop_again(block);
#endif
    }
#ifndef FIXED
    raise(SIGSEGV);
#endif
    return 0;
}
