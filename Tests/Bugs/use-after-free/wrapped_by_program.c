// An executable wraps malloc and free: the blocks that its wrappers get are guarded from the first one on.
// finding: use-after-free
// access: read
// block: size=600 offset=8 state=retired
// stack-access: use
// stack-free: free
// stack-alloc: malloc
// exit: 139
// confidence: exact
// static: the program defines malloc, too

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return next(size);
}

void free(void *block) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next(block);
}

__attribute__((noinline)) static void use(volatile long *list) { printf("%ld\n", list[1]); }

int main(void) {
    volatile long *list = malloc(600);
    list[1] = 4;
#ifndef FIXED
    free((void *)list);
#endif
    use(list);
#ifdef FIXED
    free((void *)list);
#endif
    return 0;
}
