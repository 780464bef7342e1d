// realloc to zero bytes frees the block and returns NULL; the caller takes NULL for failure and frees the block again.
// finding: double-free
// access: free
// block: size=72 offset=0 state=quarantined language=unknown
// stack-access: drop_list
// stack-free: shrink_list
// stack-alloc: make_list
// exit: 134
// confidence: exact
// options: isolated_per_context=0
// musl: musl's realloc(block, 0) keeps a block of no bytes

#include "../bug.h"

FRAME int *make_list(void) {
    int *list = malloc(18 * sizeof *list);
    list[0] = 7;
    return list;
}

FRAME int *shrink_list(int *list, size_t count) {
    int *shrunk = realloc(list, count * sizeof *list);
#ifdef FIXED
    return shrunk;
#else
    return shrunk ? shrunk : list;
#endif
}

FRAME void drop_list(int *list) {
    free(list);
    KEEP_FRAME();
}

int main(void) {
    int *list = make_list();
    printf("%d\n", list[0]);
    drop_list(shrink_list(list, 0));
    return 0;
}
