// Memory is read through a pointer made from an integer.
// finding: wild-access
// access: read
// address: 0x1234000000
// stack-access: use_value
// exit: 139
// confidence: exact

#include "../bug.h"

FRAME long use_value(const long *pointer) {
    long value = *pointer;
    HOLD(pointer);
    return value;
}

int main(void) {
#ifdef FIXED
    static const long value = 3;
    const long *pointer = &value;
#else
    const long *pointer = (const long *)0x1234000000;
#endif
    printf("%ld\n", use_value(pointer));
    return 0;
}
