// Allocates before libc has initialized `environ`; with an argument, also uses a freed block.
#include <stdio.h>
#include <stdlib.h>

static void allocate(void) { free(malloc(10)); }
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = allocate;

__attribute__((noinline)) static char *make(void) { return malloc(100); }

int main(int count, char **words) {
    (void)words;
    char *volatile block = make();
    free(block);
    if (count > 1) ((volatile char *)block)[40] = 1;
    puts("ran");
    return 0;
}
