// A library whose frames lie between frames of the program, for loading.c.

#include <stdlib.h>

int loading_call(void *(*allocate)(unsigned long), int depth, void **made);
int loading_call(void *(*allocate)(unsigned long), int depth, void **made) {
    volatile char room[200];
    room[depth % 200] = (char)depth;
    if (depth) return loading_call(allocate, depth - 1, made) + (room[depth % 200] == 77);
    void *own = malloc(64);
    free(own);
    *made = allocate(100);
    return *made != NULL;
}

__attribute__((constructor)) static void opened(void) { free(malloc(10)); }
__attribute__((destructor)) static void closed(void) { free(malloc(10)); }
