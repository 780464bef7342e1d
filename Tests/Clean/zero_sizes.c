// Blocks of zero bytes have distinct pointers, free accepts NULL, and free preserves errno.

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    volatile size_t none = 0;
    void *blocks[8] = {malloc(none),        malloc(none),       calloc(none, 5),         calloc(5, none),
                       realloc(NULL, none), memalign(64, none), aligned_alloc(64, none), NULL};
    printf("%d\n", posix_memalign(&blocks[7], 64, none));
    int distinct = 1;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) distinct &= blocks[i] && blocks[i] != blocks[j];
    printf("%d\n", distinct);
    blocks[0] = realloc(blocks[0], 100);
    printf("%d\n", blocks[0] != NULL);
    errno = 77;
    for (int i = 0; i < 8; i++) free(blocks[i]);
    free(NULL);
    void *large = malloc(10000000);
    errno = 78;
    free(large);
    printf("%d\n", errno);
    printf("%zu\n", malloc_usable_size(NULL));
    return 0;
}
