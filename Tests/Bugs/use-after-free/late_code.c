// The first block of a new call site is isolated even after 20,000 other stacks used up the isolated_overhead budget.
// finding: use-after-free
// access: read
// block: size=72 offset=8
// stack-access: read_late
// stack-free: main
// stack-alloc: allocate_late
// exit: 139
// confidence: exact

#include "../bug.h"

enum { STACKS = 20000, DEPTH = 27 };

static volatile int returns;
static void *right(uint64_t path, int depth);

FRAME void *left(uint64_t path, int depth) {
    void *block = !depth ? malloc(72) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns++;
    return block;
}

FRAME void *right(uint64_t path, int depth) {
    void *block = !depth ? malloc(72) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns--;
    return block;
}

FRAME long *allocate_late(void) {
    long *block = malloc(72);
    HOLD(block);
    return block;
}

FRAME long read_late(const long *block) {
    long read = block[1];
    HOLD(read);
    return read;
}

int main(void) {
    for (uint64_t i = 0; i < STACKS; i++) free(left(i * UINT64_C(0x9e3779b97f4a7c15) >> 20, DEPTH));
    long *block = allocate_late();
    block[1] = 7;
#ifdef FIXED
    printf("%ld\n", read_late(block));
    free(block);
#else
    free(block);
    printf("%ld\n", read_late(block));
#endif
}
