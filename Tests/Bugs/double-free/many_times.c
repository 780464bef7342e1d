// A hundred thousand double frees from the same stack make one finding with their count.
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

#include "../drops.h"

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
