// An executable without PIE takes malloc's address: images resolve malloc to its PLT entry, which calls the runtime.
// libs: -no-pie -fno-pic

#include <stdio.h>
#include <stdlib.h>

void *(*volatile make)(size_t) = malloc;

int main(void) {
    free(make(10));
    puts("done");
    return 0;
}
