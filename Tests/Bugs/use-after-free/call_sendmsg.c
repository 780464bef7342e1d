// sendmsg() is passed 40 buffers, the last of which is freed memory.
// finding: use-after-free
// access: read
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: send_message
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="sendmsg" bytes="200"

#include "../bug.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { buffer_bytes = 200, parts = 40 };

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME int send_message(int descriptor, char *buffer) {
    static struct iovec vectors[parts];
    for (int i = 0; i < parts; i++) vectors[i] = (struct iovec){"part", 4};
    vectors[parts - 1] = (struct iovec){buffer, buffer_bytes};
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = parts};
    int bytes = (int)sendmsg(descriptor, &message, 0);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", send_message(pair[0], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
