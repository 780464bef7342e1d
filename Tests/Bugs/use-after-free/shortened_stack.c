// After two million distinct stacks, only the innermost frames of new stacks are recorded, and appear in the finding.
// finding: use-after-free
// access: read
// block: size=72 offset=8
// stack-access: read_late
// stack-free: free_late
// stack-alloc: allocate_late
// exit: 139
// confidence: exact
// options: isolated_overhead=100%

#include "../bug.h"
#include <stdint.h>

enum { ALLOCATIONS = 2000000, DEPTH = 27 };

static volatile int returns;
static void *right(uint64_t path, int depth);

FRAME void *left(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns++;
    return block;
}

FRAME void *right(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns--;
    return block;
}

FRAME long *allocate_late(int depth) {
    long *block = depth ? allocate_late(depth - 1) : calloc(9, sizeof *block);
    HOLD(block);
    return block;
}

FRAME void free_late(long *block, int depth) {
    if (depth) free_late(block, depth - 1);
    else free(block);
    KEEP_FRAME();
}

FRAME long read_late(const long *block) {
    long read = block[1];
    HOLD(read);
    return read;
}

int main(void) {
    for (uint64_t i = 0; i < ALLOCATIONS; i++) free(left(i * UINT64_C(0x9e3779b97f4a7c15) >> 20, DEPTH));
    long *block = allocate_late(10);
#ifdef FIXED
    printf("%ld\n", read_late(block));
    free_late(block, 10);
#else
    free_late(block, 10);
    printf("%ld\n", read_late(block));
#endif
}
