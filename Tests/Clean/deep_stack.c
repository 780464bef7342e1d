// A deep recursion allocates at every level and uses seven of the eight MiB of stack.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static long descend(int depth) {
    char frame[7000];
    memset(frame, depth & 0x7f, sizeof frame);
    char *block = malloc((size_t)depth % 1000 + 1);
    block[0] = frame[3000];
    long sum = depth ? descend(depth - 1) : 0;
    sum += block[0];
    free(block);
    return sum;
}

int main(void) {
    for (int i = 0; i < 3; i++) printf("%ld\n", descend(1000));
    return 0;
}
