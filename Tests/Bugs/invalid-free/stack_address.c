// A local array is freed.
// finding: invalid-free
// access: free
// stack-access: drop_buffer
// exit: 134
// confidence: exact
// detail: what="stack address"

#include "../bug.h"

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME void use_buffer(void) {
    _Alignas(16) char local[64] = "local";
    char *buffer = local;
#ifdef FIXED
    buffer = malloc(64);
    strcpy(buffer, local);
#endif
    puts(buffer);
    drop_buffer(buffer);
}

int main(void) {
    use_buffer();
    return 0;
}
