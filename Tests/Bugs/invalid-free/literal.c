// A string literal is freed.
// finding: invalid-free
// access: free
// stack-access: drop_greeting
// exit: 134
// confidence: exact
// detail: what="global variable|misaligned"

#include "../bug.h"

FRAME void drop_greeting(const char *greeting) {
    free((void *)(uintptr_t)greeting);
    KEEP_FRAME();
}

int main(void) {
    const char *greeting = "hello";
#ifdef FIXED
    greeting = strdup(greeting);
#endif
    puts(greeting);
    drop_greeting(greeting);
    return 0;
}
