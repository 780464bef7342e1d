// Blocks grow and shrink through every size class and back and keep their contents.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(const unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != (unsigned char)(i * 7)) return 0;
    return 1;
}

static void fill(unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i++) block[i] = (unsigned char)(i * 7);
}

int main(void) {
    unsigned char *block = NULL;
    size_t size = 0;
    int good = 1;
    for (size_t next = 1; next < 3000000; next = next * 5 / 4 + 1) {
        block = realloc(block, next);
        good &= check(block, size);
        fill(block, next);
        size = next;
    }
    while (size > 10) {
        size = size * 3 / 4;
        block = realloc(block, size);
        good &= check(block, size);
    }
    for (int i = 0; i < 10000; i++) {
        size_t next = (size_t)(i * 7919 % 5000) + 1;
        block = realloc(block, next);
        good &= check(block, size < next ? size : next);
        fill(block, next);
        size = next;
    }
    printf("%d\n", good);
    block = realloc(block, 0);
    printf("%d\n", block == NULL);
    block = realloc(NULL, 0);
    printf("%d\n", block != NULL);
    free(block);
    block = reallocarray(NULL, 10, 30);
    fill(block, 300);
    block = reallocarray(block, 100, 30);
    printf("%d\n", check(block, 300));
    free(block);
    return 0;
}
