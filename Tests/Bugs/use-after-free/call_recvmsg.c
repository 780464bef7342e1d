// recvmsg() writes into a freed buffer.
// finding: use-after-free
// access: write
// block: size=200 offset=20 state=quarantined language=unknown
// stack-access: receive_message
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="recvmsg" bytes="100"

#include "../bug.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { buffer_bytes = 200 };

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int receive_message(int descriptor, char *buffer) {
    struct iovec vector = {buffer + 20, 100};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int bytes = (int)recvmsg(descriptor, &message, 0);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[1], "message", 7) != 7) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", receive_message(pair[0], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
