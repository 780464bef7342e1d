// A far too large index into a live block leads into the protected pages of a freed block.
// finding: heap-overflow
// access: read
// block: size=512 state=live
// stack-access: value_at
// stack-alloc: make_values
// exit: 139

#include "../bug.h"

enum { COUNT = 32 };

FRAME char *make_values(void) {
    char *values = malloc(512);
    memset(values, 1, 512);
    KEEP_FRAME();
    return values;
}

FRAME int value_at(const char *values, long index) {
    int value;
#ifdef __x86_64__
    __asm__ volatile("movsbl (%1,%2), %0" : "=r"(value) : "r"(values), "r"(index));
#else
    value = values[index];
#endif
    HOLD(values);
    return value;
}

int main(void) {
    char *lives[COUNT], *dead[COUNT];
    for (int i = 0; i < COUNT; i++) lives[i] = make_values(), dead[i] = malloc(768);
    for (int i = 0; i < COUNT; i++) free(dead[i]);
    long index = 9000;
#ifdef FIXED
    index = 90;
#endif
    FORGET(index);
    printf("%d\n", value_at(lives[3], index));
    for (int i = 0; i < COUNT; i++) free(lives[i]);
    return 0;
}
