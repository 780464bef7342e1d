// A single integer from new is freed by delete[].
// finding: dealloc-mismatch
// access: free
// block: size=8 offset=0
// stack-access: delete_numbers
// stack-alloc: make_number
// exit: 99
// confidence: exact
// detail: allocated_with="operator new" freed_with="operator delete[]"

#include "../bug.h"

FRAME long *make_number() {
    long *number = new long(12);
    HOLD(number);
    return number;
}

FRAME void delete_numbers(long *number) {
#ifdef FIXED
    delete number;
#else
    delete[] number;
#endif
    KEEP_FRAME();
}

int main() {
    long *number = make_number();
    printf("%ld\n", *number);
    delete_numbers(number);
}
