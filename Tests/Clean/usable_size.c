// All bytes up to malloc_usable_size may be written, and realloc within that size keeps them.

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    int good = 1;
    for (size_t size = 0; size < 300000; size = size * 4 / 3 + 1) {
        char *block = malloc(size), *other = malloc(size);
        size_t usable = malloc_usable_size(block);
        good &= usable >= size && malloc_usable_size(other) >= size;
        memset(block, 'b', usable);
        memset(other, 'o', malloc_usable_size(other));
        for (size_t i = 0; i < usable; i++) good &= block[i] == 'b';
        if (usable) block = realloc(block, usable);
        for (size_t i = 0; i < size; i++) good &= block[i] == 'b';
        free(block);
        free(other);
    }
    printf("%d\n", good);
    return 0;
}
