// A late write is found although the program ends by exit() in a nested call, with an exit code other than 0.
// finding: write-after-free
// access: write
// block: size=16 offset=4 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_pair
// stack-alloc: make_pair
// exit: 5
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

FRAME int *make_pair(void) {
    int *pair = malloc(16);
    pair[0] = 1;
    return pair;
}

FRAME void drop_pair(int *pair) {
    free(pair);
    KEEP_FRAME();
}

FRAME void finish(int *pair) {
    pair[1] = 2;
    exit(5);
}

int main(void) {
    int *pair = make_pair();
#ifdef FIXED
    int *other = make_pair();
    drop_pair(other);
#else
    drop_pair(pair);
#endif
    finish(pair);
    return 0;
}
