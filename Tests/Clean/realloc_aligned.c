// Blocks from the aligned functions are reallocated and keep their contents.

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    int good = 1;
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
        for (size_t size = 1; size < 20000; size = size * 3 + 1) {
            char *block = memalign(alignment, size);
            memset(block, 'a', size);
            block = realloc(block, size * 2);
            for (size_t i = 0; i < size; i++) good &= block[i] == 'a';
            block = realloc(block, size / 2 + 1);
            for (size_t i = 0; i < size / 2 + 1 && i < size; i++) good &= block[i] == 'a';
            free(block);
        }
    }
    printf("%d\n", good);
    return 0;
}
