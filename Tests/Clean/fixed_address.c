// A non-PIE executable takes malloc's address: all images resolve malloc to its PLT entry, which calls the runtime.
// libs: -no-pie -fno-pic

#include <stdio.h>
#include <stdlib.h>

void *(*volatile make)(size_t) = malloc;

int main(void) {
    free(make(10));
    puts("done");
    return 0;
}
