// longjmp leaves frames that had allocated; stacks recorded afterwards are complete again.

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf back;
static void *held;

__attribute__((noinline)) static void descend(int depth) {
    if (depth < 0) return;
    void *block = malloc((size_t)depth + 10);
    if (depth) {
        free(block);
        descend(depth - 1);
    } else {
        held = block;
        longjmp(back, 1);
    }
}

int main(void) {
    volatile int jumps = 0;
    for (volatile int i = 0; i < 500; i++) {
        if (setjmp(back) == 0) {
            descend(i % 50);
        } else {
            jumps++;
            free(held);
        }
    }
    printf("%d\n", jumps);
    return 0;
}
