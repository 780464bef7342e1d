// A loop over a large block that realloc has shrunk runs into the freed block behind it.
// finding: heap-overflow
// access: read
// block: size=90000 state=live
// stack-access: sum
// stack-alloc: ~shrink
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

enum { FORMER = 600000, LEFT = 90000, COUNT = 6 };

FRAME char *shrink(void) {
    char *buffer = malloc(FORMER);
    memset(buffer, 1, FORMER);
    buffer = realloc(buffer, LEFT);
    KEEP_FRAME();
    return buffer;
}

FRAME long sum(const char *buffer, long count) {
    long total = 0;
    for (long i = 0; i < count; i++) total += ((const volatile char *)buffer)[i];
    HOLD(buffer);
    return total;
}

int main(void) {
    char *buffers[COUNT];
    for (int i = 0; i < COUNT; i++) buffers[i] = shrink();
    long count = FORMER;
#ifdef FIXED
    count = LEFT;
#endif
    FORGET(count);
    for (int i = 0; i < COUNT; i++) printf("%ld\n", sum(buffers[i], count));
    for (int i = 0; i < COUNT; i++) free(buffers[i]);
    return 0;
}
