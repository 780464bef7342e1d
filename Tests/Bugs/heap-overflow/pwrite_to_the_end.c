// pwrite() is passed more bytes than the block has and stops short at the inaccessible page behind the block.
// finding: heap-overflow
// access: read
// block: size=131072 offset=131072 state=live language=unknown
// stack-access: empty_buffer
// stack-alloc: make_buffer
// exit: 134
// confidence: exact
// detail: call="pwrite" bytes="140000" ended="stopped short"
// qemu-user: it fails calls with EFAULT whose buffer has an unreadable page, however little of it the call would use

#define _GNU_SOURCE
#include "../bug.h"
#include <sys/mman.h>
#include <unistd.h>

#ifdef FIXED
enum { buffer_bytes = 131072, sent = 131072 };
#else
enum { buffer_bytes = 131072, sent = 140000 };
#endif

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME int empty_buffer(int descriptor, char *buffer) {
    int bytes = (int)pwrite(descriptor, buffer, sent, 0);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int file = memfd_create("file", 0);
    char *buffer = make_buffer();
    if (file < 0) return 1;
    printf("%d\n", empty_buffer(file, buffer));
    free(buffer);
    return 0;
}
