// A program gets the usual descriptor numbers and may close all descriptors.
// musl: musl has no close_range

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    int first = open("/dev/null", O_RDONLY), second = dup(first);
    free(malloc(100));
    printf("%d %d\n", first, second);
    fflush(stdout);
    for (int i = 3; i < 4096; i++) close(i);
    close_range(3, ~0u, 0);
    for (int i = 0; i < 10000; i++) free(malloc((size_t)(i % 300)));
    printf("%d\n", open("/dev/null", O_RDONLY));
    return 0;
}
