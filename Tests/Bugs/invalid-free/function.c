// The address of a function is freed.
// finding: invalid-free
// access: free
// stack-access: drop_context
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME void on_event(void *context) { puts(context ? "context" : "no context"); }

FRAME void drop_context(void *context) {
    free(context);
    KEEP_FRAME();
}

int main(void) {
    void *context = (void *)(uintptr_t)on_event;
#ifdef FIXED
    context = malloc(16);
#endif
    on_event(context);
    drop_context(context);
    return 0;
}
