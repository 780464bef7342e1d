// A block of zero bytes is freed twice.
// finding: double-free
// access: free
// block: size=0 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_nothing
// stack-alloc: make_nothing
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME void *make_nothing(size_t size) {
    void *nothing = malloc(size);
    KEEP_FRAME();
    return nothing;
}

FRAME void drop_nothing(void *nothing) {
    free(nothing);
    KEEP_FRAME();
}

FRAME void drop_again(void *nothing) {
    free(nothing);
    KEEP_FRAME();
}

int main(void) {
    void *nothing = make_nothing(0);
    puts(nothing ? "a pointer" : "NULL");
    drop_nothing(nothing);
#ifdef FIXED
    nothing = make_nothing(0);
#endif
    drop_again(nothing);
    return 0;
}
