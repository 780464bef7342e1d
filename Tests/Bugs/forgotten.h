// Makes a freed block whose records the runtime has discarded.

#ifndef FORGOTTEN_H
#define FORGOTTEN_H

#include <malloc.h>

#include "bug.h"

enum { COUNT = 200000, BYTES = 112 };

// Returns a freed block. malloc_trim() has returned its memory to the kernel and discarded the runtime's records of it.
static char *forgotten_block(void) {
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = malloc(BYTES);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    puts("given back");
    return blocks[COUNT / 8];
}

#endif
