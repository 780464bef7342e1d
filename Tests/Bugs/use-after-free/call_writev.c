// writev() reads from a freed buffer.
// finding: use-after-free
// access: read
// block: size=200 offset=100 state=quarantined language=unknown
// stack-access: empty_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="writev" bytes="50"

#define _GNU_SOURCE
#include "../bug.h"
#include <sys/uio.h>
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

FRAME int empty_buffer(int descriptor, char *buffer) {
    char header[10] = "header";
    struct iovec vectors[] = {{header, sizeof header}, {buffer + place, 50}};
    int bytes = (int)writev(descriptor, vectors, 2);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (pipe(pair)) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", empty_buffer(pair[1], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
