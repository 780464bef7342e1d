// Makes a block of 40 bytes and frees it in two functions, whose names appear in the two stacks of a double free.

#ifndef DROPS_H
#define DROPS_H

#include "bug.h"

FRAME void *make(void) {
    void *block = malloc(40);
    KEEP_FRAME();
    return block;
}

FRAME void drop(void *block) {
    free(block);
    KEEP_FRAME();
}

FRAME void drop_again(void *block) {
    free(block);
    KEEP_FRAME();
}

#endif
