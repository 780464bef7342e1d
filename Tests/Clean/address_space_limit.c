// A program limits its address space to 2 GiB and still allocates, reallocates and frees blocks.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int main(void) {
    struct rlimit limit = {(rlim_t)2 << 30, (rlim_t)2 << 30};
    void *blocks[64];
    int good = 1;
    free(malloc(100));
    setrlimit(RLIMIT_AS, &limit);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 64; i++) {
            size_t size = i % 2 ? 1 << 20 : 1 << 12;
            blocks[i] = malloc(size);
            if (!blocks[i]) return 1;
            memset(blocks[i], i, size);
        }
        for (int i = 0; i < 64; i++) {
            good &= ((char *)blocks[i])[100] == i;
            free(blocks[i]);
        }
    }
    for (int i = 0; i < 100; i++) {
        void *large = malloc((size_t)64 << 20);
        if (!large) return 2;
        memset(large, 1, 4096);
        free(large);
    }
    printf("%d\n", good);
    return 0;
}
