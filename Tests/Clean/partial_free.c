// The executable defines only free, which calls __libc_free.
// static: the program defines malloc or free, too

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void __libc_free(void *block);

static volatile unsigned freed;

void free(void *block) {
    freed += block != NULL;
    __libc_free(block);
}

int main(void) {
    char *text = NULL, *line = NULL;
    size_t room = 0;
    if (asprintf(&text, "%d bytes", 100) < 0) return 1;
    FILE *self = fopen("/proc/self/stat", "r");
    if (!self || getline(&line, &room, self) <= 0) return 2;
    fclose(self);
    unsigned before = freed;
    free(text);
    free(line);
    free(realloc(malloc(10), 10000));
    free(aligned_alloc(4096, 4096));
    printf("%u freed here\n", freed - before);
    return 0;
}
