// An image has malloc, realloc and free of its own that are hidden, as with -Bsymbolic; its free gets strdup's blocks.
// static: the program defines malloc or free, too

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_valloc(size_t size);
extern void *__libc_pvalloc(size_t size);
extern void __libc_free(void *block);

__attribute__((visibility("hidden"))) void *malloc(size_t size) { return __libc_malloc(size); }
__attribute__((visibility("hidden"))) void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
__attribute__((visibility("hidden"))) void free(void *block) { __libc_free(block); }

int main(void) {
    char *line = malloc(8), *text = NULL;
    size_t room = 8;
    FILE *self = fopen("/proc/self/stat", "r");
    if (!self || getline(&line, &room, self) <= 0) return 1; // libc grows `line` by the global realloc
    fclose(self);
    if (asprintf(&text, "%s", "made by everybody's malloc") < 0) return 2;
    text = realloc(text, 1000);
    puts(text);
    free(text);
    free(line);
    free(strdup("copied"));
    free(__libc_calloc(10, 10));
    free(__libc_memalign(256, 10));
    free(__libc_valloc(10));
    free(__libc_pvalloc(10));
    return 0;
}
