// An executable with an allocator of its own, which precedes the library's in symbol lookup.
// for: run_own_allocator

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char pool[1 << 20];
static size_t used;

void *malloc(size_t bytes) {
    size_t at = (used + 15) & ~(size_t)15;
    if (bytes > sizeof pool - at) return NULL;
    used = at + bytes;
    return pool + at;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes);
    if (block) memset(block, 0, count * bytes);
    return block;
}
void *realloc(void *block, size_t bytes) {
    char *moved = malloc(bytes);
    size_t room = (size_t)(pool + sizeof pool - (char *)block);
    if (block && moved) memmove(moved, block, bytes < room ? bytes : room);
    return moved;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    free(strdup("a block of its own"));
    FILE *self = fopen("/proc/self/stat", "r");
    printf("%s\n", self && getline(&line, &room, self) > 0 ? "works" : "fails");
    free(line);
    return 0;
}
