// calloc and reallocarray refuse overflowing products, and calloc's memory is zero however often it was reused.

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    volatile size_t half = SIZE_MAX / 2 + 1, root = (size_t)1 << 32;
    errno = 0;
    printf("%d", calloc(half, 2) == NULL);
    printf("%d", calloc(root, root) == NULL);
    printf(" %d\n", errno == ENOMEM);
    char *block = malloc(10);
    errno = 0;
    char *grown = reallocarray(block, root, root);
    printf("%d %d\n", grown == NULL, errno == ENOMEM);
    free(grown ? grown : block);
    int zero = 1;
    for (int round = 0; round < 50; round++) {
        for (size_t size = 1; size < 300000; size = size * 2 + 3) {
            char *zeroed = calloc(1, size);
            for (size_t i = 0; i < size; i++) zero &= zeroed[i] == 0;
            memset(zeroed, 0xff, size);
            free(zeroed);
        }
    }
    printf("%d\n", zero);
    return 0;
}
