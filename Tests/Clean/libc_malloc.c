// Blocks from __libc_malloc and similar functions are passed to the ordinary free and realloc.
// musl: musl has no __libc_memalign

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

int main(void) {
    char *plain = __libc_malloc(100), *zeroed = __libc_calloc(10, 10), *aligned = __libc_memalign(256, 100);
    char *large = __libc_malloc(1 << 20);
    strcpy(plain, "plain");
    strcpy(aligned, "aligned");
    strcpy(large, "large");
    printf("%d %d\n", malloc_usable_size(plain) >= 100, zeroed[99]);
    plain = realloc(plain, 5000);
    large = realloc(large, 3 << 20);
    printf("%s %s %s\n", plain, aligned, large);
    free(plain);
    free(zeroed);
    free(aligned);
    free(large);
    return 0;
}
