// Requests that no memory can satisfy fail with ENOMEM, and the program goes on.
// musl: musl has no pvalloc

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void show(const char *what, void *block) {
    printf("%s %d %d\n", what, block == NULL, errno == ENOMEM);
    errno = 0;
}

int main(void) {
    volatile size_t half = (size_t)PTRDIFF_MAX + 1, all = SIZE_MAX, nearly = PTRDIFF_MAX;
    errno = 0;
    show("malloc half", malloc(half));
    show("malloc all", malloc(all));
    show("malloc nearly", malloc(nearly));
    show("malloc page less", malloc(all - 4095));
    show("calloc", calloc(half, 1));
    show("calloc", calloc(1, all));
    char *block = malloc(10);
    block[9] = 'x';
    show("realloc", realloc(block, half));
    show("realloc", realloc(block, all));
    printf("%c\n", block[9]);
    free(block);
    show("memalign", memalign(64, half));
    show("aligned_alloc", aligned_alloc(4096, all - 4095));
    show("valloc", valloc(all));
    show("pvalloc", pvalloc(all));
    void *untouched = &block;
    printf("%d", posix_memalign(&untouched, 64, half) == ENOMEM);
    printf(" %d\n", untouched == &block);
    free(malloc(100));
    return 0;
}
