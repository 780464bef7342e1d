// Calls malloc and free with the stack pointer at a fixed address of a supplied stack, whatever that stack's size.

#ifndef SUPPLIED_STACK_H
#define SUPPLIED_STACK_H

#include <alloca.h>
#include <stdlib.h>

enum { USED_AT = 200000 };

static char *stack; // lowest address of the stack

__attribute__((noinline)) static void use_blocks(void) {
    for (int i = 0; i < 40; i++) {
        char *volatile block = malloc(24);
        free(block);
    }
}

__attribute__((noinline)) static void go_down(void) {
    char *here = __builtin_frame_address(0);
    volatile char *room = alloca((size_t)(here - (stack + USED_AT)));
    room[0] = 1;
    use_blocks();
    room[0] = 2;
}

#endif
