// A string from strdup is freed twice; libc makes the allocation.
// finding: double-free
// access: free
// block: size=15 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_name
// stack-alloc: strdup|__strdup|__GI___strdup
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *copy_name(const char *name) {
    char *copy = strdup(name);
    KEEP_FRAME();
    return copy;
}

FRAME void drop_name(char *name) {
    free(name);
    KEEP_FRAME();
}

FRAME void drop_again(char *name) {
    free(name);
    KEEP_FRAME();
}

int main(void) {
    char *name = copy_name("fourteen bytes");
    puts(name);
    drop_name(name);
#ifdef FIXED
    name = copy_name("another name");
#endif
    drop_again(name);
    return 0;
}
