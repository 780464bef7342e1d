// A program frees one of its command line arguments, which lie above the stack.
// finding: invalid-free
// access: free
// stack-access: drop_name
// exit: 134
// confidence: exact
// detail: what="stack address"

#include "../bug.h"

FRAME void drop_name(char *name) {
    free(name);
    KEEP_FRAME();
}

int main(int count, char **arguments) {
    char *name = count > 0 ? arguments[0] : NULL;
#ifdef FIXED
    name = strdup(name);
#endif
    puts(name ? "name" : "no name");
    drop_name(name);
    return 0;
}
