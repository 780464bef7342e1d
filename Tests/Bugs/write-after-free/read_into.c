// The kernel writes into freed memory: read(2) gets a dead buffer.
// finding: write-after-free
// access: write
// block: size=200 offset=100 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_buffer
// stack-alloc: make_buffer
// exit: 99
// detail: found_by="exit"
// options: fence_per_context=0

#include "../bug.h"
#include <unistd.h>

FRAME char *make_buffer(void) {
    char *buffer = malloc(200);
    buffer[0] = 0;
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int receive(int descriptor, char *buffer) {
    int received = (int)read(descriptor, buffer + 100, 50);
    KEEP_FRAME();
    return received;
}

int main(void) {
    int descriptors[2];
    char *buffer = make_buffer();
    if (pipe(descriptors) || write(descriptors[1], "hello", 5) != 5) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", receive(descriptors[0], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
