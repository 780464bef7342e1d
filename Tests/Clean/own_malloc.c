// A program replaces malloc, calloc, realloc and free, also for calls from libc and for reallocarray.
// warning: no block is guarded
// static: the program defines malloc or free, too

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(16) char pool[1 << 22];
static size_t used;
static int allocations;

void *malloc(size_t size) {
    size_t *block = (size_t *)(pool + used);
    size_t bytes = (size + 31) & ~(size_t)15;
    if (size > sizeof pool || used + bytes > sizeof pool) {
        errno = ENOMEM;
        return NULL;
    }
    used += bytes;
    allocations++;
    block[0] = size;
    return block + 2;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    size_t old = block ? ((size_t *)block)[-2] : 0;
    if (moved && block) memcpy(moved, block, old < size ? old : size);
    return moved;
}

int main(void) {
    int before = allocations;
    char *copy = strdup("copied");
    char *text = NULL;
    if (asprintf(&text, "%s %d", copy, 4) < 0) return 1;
    int made = allocations - before;
    printf("%s %d\n", text, made >= 2);
    free(text);
    free(copy);
    char *list = reallocarray(NULL, 4, 8);
    list = reallocarray(list, 8, 8);
    int is_own = list >= pool && list < pool + sizeof pool;
    errno = 0;
    volatile size_t huge = (size_t)1 << 62;
    int is_refused = !reallocarray(NULL, huge, 8) && errno == ENOMEM;
    printf("%d %d\n", is_own, is_refused);
    free(list);
    return !is_own || !is_refused;
}
