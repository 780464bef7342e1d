// Memory and string functions are called before other code: in the resolver of an indirect function, in a constructor.
// processor: x86_64 (the resolver gets no arguments)
// musl: musl has no indirect functions

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char early[32];

static size_t length_of(const char *string) { return strlen(string); }

typedef size_t measure(const char *string);

__attribute__((used)) static measure *resolve(void) {
    char copy[16];
    memcpy(copy, "resolved", 9);
    if (strcmp(copy, "resolved") == 0 && memchr(copy, 'v', 9)) memmove(early, copy, strlen(copy) + 1);
    return length_of;
}

static measure indirect __attribute__((ifunc("resolve")));

__attribute__((constructor(101))) static void first(void) {
    char *block = malloc(7);
    memset(block, 'f', 6);
    block[6] = 0;
    printf("%zu %s\n", strlen(block), block);
    free(block);
}

int main(void) {
    printf("%s %zu %ld\n", early, indirect(early), strtol("77", NULL, 8));
    return 0;
}
