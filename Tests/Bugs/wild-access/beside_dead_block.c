// A pointer leads from a live block to the guard page behind a freed block: the read is attributed to neither block.
// finding: wild-access
// access: read
// stack-access: read_from
// exit: 139
// confidence: inferred
// detail: before_size="768" after_size="512" before_state="retired" after_state="live"

#include "../bug.h"

enum { COUNT = 32 };

FRAME int read_from(const volatile char *pointer, const volatile char *live) {
    int value = *pointer;
    HOLD(live);
    return value;
}

int main(void) {
    static char *lives[COUNT];
    static uintptr_t dead[COUNT];
    for (int i = 0; i < COUNT; i++) {
        lives[i] = calloc(1, 512);
        dead[i] = (uintptr_t)malloc(768) ^ 1; // hidden, so that no pointer to the block is left
    }
    for (int i = 0; i < COUNT; i++) {
        void *block = (void *)(dead[i] ^ 1);
        free(block);
    }
    char *live = lives[3];
#ifdef FIXED
    long distance = 9;
#else
    long distance = (long)(dead[3] ^ 1) - (long)live + 3831;
#endif
    char *pointer = live + distance;
    FORGET(pointer);
    distance = 0;
    FORGET(distance);
    printf("%d\n", read_from(pointer, live));
    for (int i = 0; i < COUNT; i++) free(lives[i]);
    return 0;
}
