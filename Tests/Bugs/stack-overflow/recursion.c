// An infinite recursion overflows the stack of the main thread.
// finding: stack-overflow
// stack-access: descend
// exit: 139

#include "../bug.h"

FRAME long descend(long depth, long limit) {
    volatile char local[200];
    local[0] = (char)depth;
    long below = depth == limit ? 0 : descend(depth + 1, limit);
    return below + local[0] * 0 + 1;
}

int main(void) {
#ifdef FIXED
    printf("%ld\n", descend(0, 1000));
#else
    printf("%ld\n", descend(0, -1));
#endif
    return 0;
}
