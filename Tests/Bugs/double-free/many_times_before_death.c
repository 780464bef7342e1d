// Equal double frees are counted until a fault ends the process: the count is written before the process dies.
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

#include "../drops.h"

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
