// A hook (function pointer) that is null is called.
// finding: null-access
// access: call
// address: 0x0
// stack-access: call_hook
// exit: 139
// confidence: exact

#include "../bug.h"

static int (*hook)(int value);

FRAME int plain_hook(int value) { return value + 1; }

FRAME void set_hook(int (*function)(int value)) { hook = function; }

FRAME int call_hook(int value) {
    int result = hook(value);
    KEEP_FRAME();
    return result;
}

int main(void) {
#ifdef FIXED
    set_hook(plain_hook);
#else
    set_hook(NULL);
#endif
    printf("%d\n", call_hook(3));
    return 0;
}
