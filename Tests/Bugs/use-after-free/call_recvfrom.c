// recvfrom() writes a datagram into a freed buffer.
// finding: use-after-free
// access: write
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: receive_datagram
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="recvfrom" bytes="200"

#include "../bug.h"
#include <sys/socket.h>
#include <sys/un.h>
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

FRAME int receive_datagram(int descriptor, char *buffer) {
    struct sockaddr_un from;
    socklen_t from_bytes = sizeof from;
    int bytes = (int)recvfrom(descriptor, buffer, buffer_bytes, 0, (struct sockaddr *)&from, &from_bytes);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || write(pair[1], "datagram", 8) != 8) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", receive_datagram(pair[0], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
