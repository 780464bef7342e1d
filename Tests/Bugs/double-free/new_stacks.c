// A block is freed twice after a million new stacks used up stack_overhead, so its allocation stack is shortened.
// finding: double-free
// access: free
// block: size=40 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop
// stack-alloc: make
// exit: 134
// detail: shortened="alloc"
// confidence: exact
// options: stack_overhead=0%:isolated_per_context=0

#include "../drops.h"

enum { STACKS = 1000000, DEPTH = 20 };

static volatile int returns;

// Each `path` produces a distinct stack.
FRAME void *leave(unsigned long path, int depth) {
    void *block = !depth ? make() : path & 1 ? leave(path >> 1, depth - 1) : (returns++, leave(path >> 1, depth - 1));
    returns--;
    return block;
}

int main(void) {
    for (unsigned long i = 0; i < STACKS; i++) drop(leave(i * 0x9e3779b97f4a7c15 >> 40, DEPTH));
    void *block = leave(5, DEPTH);
    drop(block);
#ifndef FIXED
    drop_again(block);
#endif
    return 0;
}
