// send() is passed more bytes than the block has and fails, because the page behind the block is inaccessible.
// finding: heap-overflow
// access: read
// block: size=131072 offset=131072 state=live language=unknown
// stack-access: empty_buffer
// stack-alloc: make_buffer
// exit: 134
// confidence: exact
// detail: call="send" bytes="140000" ended="failed with EFAULT"

#include "../bug.h"
#include <sys/socket.h>

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
    int bytes = (int)send(descriptor, buffer, sent, MSG_DONTWAIT);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 1;
    printf("%d\n", empty_buffer(pair[0], buffer));
    free(buffer);
    return 0;
}
