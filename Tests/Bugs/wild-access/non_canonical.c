// Memory is read through a pointer with corrupted upper bits: the kernel does not report the non-canonical address.
// finding: wild-access
// access: read
// stack-access: use_value
// exit: 139

#include "../bug.h"

FRAME long use_value(const long *pointer) {
    long value = *pointer;
    HOLD(pointer);
    return value;
}

int main(void) {
    static const long value = 3;
    const long *pointer = &value;
#ifndef FIXED
    // Corrupts bits 48 to 54, not the top byte, which AArch64 ignores.
    pointer = (const long *)((uintptr_t)pointer ^ 0x006b000000000000);
#endif
    printf("%ld\n", use_value(pointer));
    return 0;
}
