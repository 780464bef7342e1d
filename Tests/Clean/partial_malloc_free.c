// The executable's malloc and free call __libc_malloc and __libc_free. All other allocation functions are libc's.
// static: the program defines malloc or free, too

#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

static volatile unsigned made, freed;

void *malloc(size_t size) {
    made++;
    return __libc_malloc(size);
}

void free(void *block) {
    freed += block != NULL;
    __libc_free(block);
}

int main(void) {
    void *aligned = NULL;
    unsigned made_before = made, freed_before = freed;
    free(calloc(100, 10));
    free(realloc(calloc(3, 3), 5000));
    free(realloc(malloc(10), 500000));
    if (posix_memalign(&aligned, 4096, 10000) || (uintptr_t)aligned % 4096) return 1;
    free(aligned);
    free(aligned_alloc(64, 640));
    free(memalign(1024, 10));
    free(reallocarray(NULL, 10, 10));
    free(valloc(10));
    char *copy = strdup("copied"), *text = NULL;
    if (asprintf(&text, "%s, %zu", copy, malloc_usable_size(copy) >= 7 ? (size_t)7 : 0) < 0) return 2;
    puts(text);
    free(copy);
    free(text);
    printf("%u made here, %u freed here\n", made - made_before >= 2 ? 2 : made - made_before, freed - freed_before);
    return 0;
}
