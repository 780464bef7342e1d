// pread() writes into a freed buffer.
// finding: use-after-free
// access: write
// block: size=200 offset=100 state=quarantined language=unknown
// stack-access: fill_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="pread" bytes="50"

#define _GNU_SOURCE
#include "../bug.h"
#include <sys/mman.h>
#include <unistd.h>

enum { buffer_bytes = 200, place = 100 };

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int fill_buffer(int descriptor, char *buffer) {
    int bytes = (int)pread(descriptor, buffer + place, 50, 10);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int file = memfd_create("file", 0);
    char *buffer = make_buffer();
    if (file < 0 || ftruncate(file, 1000)) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", fill_buffer(file, buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
