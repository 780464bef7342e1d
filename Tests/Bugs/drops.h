// A block of 40 bytes, and two functions that free it: the calls that a double free is reported with.

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
