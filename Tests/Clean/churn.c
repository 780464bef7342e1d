// Two gigabytes of blocks of all sizes pass through the heap, with a small part of them alive at any time.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    enum { kept = 4096 };
    static unsigned char *blocks[kept];
    static size_t sizes[kept];
    unsigned seed = 1;
    size_t total = 0, bad = 0;
    while (total < (size_t)2 << 30) {
        seed = seed * 1103515245 + 12345;
        unsigned slot = (seed >> 16) % kept;
        seed = seed * 1103515245 + 12345;
        size_t size = (seed >> 12) % (seed % 64 == 0 ? 300000 : 2000) + 1;
        if (blocks[slot]) bad += blocks[slot][0] != slot % 251 || blocks[slot][sizes[slot] - 1] != slot % 251;
        free(blocks[slot]);
        blocks[slot] = malloc(size);
        blocks[slot][0] = blocks[slot][size - 1] = (unsigned char)(slot % 251);
        sizes[slot] = size;
        total += size;
    }
    for (int i = 0; i < kept; i++) free(blocks[i]);
    printf("%zu\n", bad);
    return 0;
}
