// What the programs share that use a block of which nothing is known any more.

#ifndef FORGOTTEN_H
#define FORGOTTEN_H

#include <malloc.h>

#include "bug.h"

enum { COUNT = 200000, BYTES = 112 };

// One of many blocks that have died, and whose memory was given back with all that was known of them.
static char *forgotten_block(void) {
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    puts("given back");
    return blocks[COUNT / 8];
}

#endif
