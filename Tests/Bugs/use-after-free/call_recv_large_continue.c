// With on_finding=continue the runtime reopens the pages of a freed 2 MiB buffer before recv() would lose the message.
// finding: use-after-free
// access: write
// block: size=2097152 offset=1000000 state=retired language=unknown
// stack-access: fill_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: on_finding=continue
// exit: 99
// confidence: exact
// detail: call="recv" bytes="20000"
// stdout: 7 message

#include "../bug.h"
#include <sys/socket.h>
#include <unistd.h>

enum { buffer_bytes = 2097152, place = 1000000, most = 20000 };

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
    int bytes = (int)recv(descriptor, buffer + place, most, 0);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || send(pair[1], "message", 7, 0) != 7) return 1;
        // Unguarded, recv() may fail: the freed buffer may be unmapped.
#ifdef FIXED
    int bytes = fill_buffer(pair[0], buffer);
    printf("%d %.7s\n", bytes, buffer + place);
    drop_buffer(buffer);
#else
    drop_buffer(buffer);
    int bytes = fill_buffer(pair[0], buffer);
    if (bytes < 0) return 1;
    printf("%d %.7s\n", bytes, buffer + place);
#endif
    return 0;
}
