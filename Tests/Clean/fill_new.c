// Memory from calloc is zero although new blocks are filled.
// options: fill_new=1

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    static const size_t sizes[] = {1, 100, 5000, 100000, 3 << 20};
    int other = 0;
    for (int i = 0; i < 60; i++) {
        size_t size = sizes[i % 5];
        unsigned char *block = calloc(1, size);
        for (size_t j = 0; j < size; j++) other += block[j] != 0;
        free(block);
    }
    printf("%d bytes other than zero\n", other);
    return 0;
}
