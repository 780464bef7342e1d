// An executable at a fixed address that takes malloc's address: everybody finds malloc in its procedure linkage table, and it is ours.
// libs: -no-pie -fno-pic

#include <stdio.h>
#include <stdlib.h>

void *(*volatile make)(size_t) = malloc;

int main(void) {
    free(make(10));
    puts("done");
    return 0;
}
