// The first word of a freed block behind a live block is written, and the bytes between the two blocks are unchanged.
// finding: write-after-free
// access: write
// block: size=50 offset=0 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: drop_name
// stack-alloc: make_name
// exit: 99
// confidence: exact
// options: isolated_per_context=0
// detail: found_by="exit" offset="0"

#include "../bug.h"

enum { COUNT = 64, SLOT = 64, SIZE = 50 };

FRAME char *make_name(void) {
    char *name = malloc(SIZE);
    memset(name, '.', SIZE);
    return name;
}

FRAME void drop_name(char *name) {
    free(name);
    KEEP_FRAME();
}

FRAME void mark(char *name) {
    for (int i = 0; i < 8; i++) ((volatile char *)name)[i] = '.';
}

int main(void) {
    static void *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = make_name();
    int behind, front = find_neighbours(names, COUNT, SLOT, &behind);
    char *stale = names[front < 0 ? 0 : behind];
#ifdef FIXED
    mark(stale);
#endif
    if (front >= 0) drop_name(stale);
#ifndef FIXED
    mark(stale);
#endif
    puts("end");
    return 0;
}
