// A global array without an initial value (.bss) is freed.
// finding: invalid-free
// access: free
// stack-access: drop_pool
// exit: 134
// confidence: exact
// detail: what="global variable"

#include "../bug.h"

static _Alignas(16) char pool[200000];

FRAME void drop_pool(char *memory) {
    free(memory);
    KEEP_FRAME();
}

int main(void) {
    char *memory = pool;
    FORGET(memory);
#ifdef FIXED
    memory = malloc(200000);
#endif
    memory[1000] = 'm';
    printf("%c\n", memory[1000]);
    drop_pool(memory);
    return 0;
}
