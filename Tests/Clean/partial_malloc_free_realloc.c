// The executable's malloc, free and realloc call libc's functions, whose addresses dlsym returns.
// warning: no block is guarded
// static: the program defines malloc or free, too

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *(*libc_malloc)(size_t);
static void *(*libc_realloc)(void *, size_t);
static void (*libc_free)(void *);

static _Alignas(16) char early[1 << 16];
static size_t early_used;
static int looking;

static int is_ready(void) {
    if (libc_free) return 1;
    if (looking++) return 0;
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    libc_malloc = (void *(*)(size_t))dlsym(libc, "malloc");
    libc_realloc = (void *(*)(void *, size_t))dlsym(libc, "realloc");
    libc_free = (void (*)(void *))dlsym(libc, "free");
    return 1;
}

static int is_early(void *block) { return (char *)block >= early && (char *)block < early + sizeof early; }

void *malloc(size_t size) {
    if (is_ready()) return libc_malloc(size);
    early_used = (early_used + size + 15) & ~(size_t)15;
    return early + early_used - ((size + 15) & ~(size_t)15);
}

void free(void *block) {
    if (block && !is_early(block) && is_ready()) libc_free(block);
}

void *realloc(void *block, size_t size) {
    if (!is_ready()) abort();
    if (!is_early(block)) return libc_realloc(block, size);
    char *moved = malloc(size);
    size_t left = (size_t)(early + sizeof early - (char *)block);
    return moved ? memcpy(moved, block, left < size ? left : size) : NULL;
}

int main(void) {
    void *aligned = NULL;
    char *counted = calloc(100, 10);
    if (posix_memalign(&aligned, 256, 1000)) return 1;
    counted = realloc(counted, 100000);
    printf("%d %s\n", counted[999], malloc_usable_size(aligned) >= 1000 ? "usable" : "too small");
    free(counted);
    free(realloc(aligned, 3000));
    free(strdup("copied"));
    free(reallocarray(calloc(1, 1), 100, 100));
    for (int i = 0; i < 1000; i++) free(calloc(1, (size_t)i * 100));
    return 0;
}
