// A function pointer to an unmapped address is called.
// finding: wild-access
// access: call
// address: 0x1234000000
// stack-access: call_function
// exit: 139
// confidence: exact

#include "../bug.h"

FRAME int plain(int value) { return value + 1; }

FRAME int call_function(int (*function)(int value)) {
    int result = function(1);
    HOLD(function);
    return result;
}

int main(void) {
#ifdef FIXED
    int (*function)(int value) = plain;
#else
    int (*function)(int value) = (int (*)(int))0x1234000000;
#endif
    printf("%d %d\n", plain(1), call_function(function));
    return 0;
}
