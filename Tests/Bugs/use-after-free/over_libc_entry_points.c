// An executable's malloc and free call __libc_malloc and __libc_free: the runtime still guards the blocks.
// finding: use-after-free
// access: read
// block: size=600 offset=8 state=retired
// stack-access: use
// stack-free: free
// stack-alloc: malloc
// exit: 139
// confidence: exact
// static: the program defines malloc, too

#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }

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
