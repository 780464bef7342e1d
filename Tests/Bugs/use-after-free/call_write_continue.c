// With on_finding=continue write() reads from a freed buffer: it transfers the fill.
// finding: use-after-free
// access: read
// block: size=200 offset=100 state=quarantined language=unknown
// stack-access: empty_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0:on_finding=continue
// exit: 99
// confidence: exact
// detail: call="write" bytes="50"
// stdout: 50 UU
// musl: unguarded, it waits for bytes that the freed buffer no longer has

#include "../bug.h"
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

FRAME int empty_buffer(int descriptor, char *buffer) {
    int bytes = (int)write(descriptor, buffer + 100, 50);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer(), sent[3] = "";
    if (pipe(pair)) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    int bytes = empty_buffer(pair[1], buffer);
    if (read(pair[0], sent, 2) != 2) return 1;
    printf("%d %s\n", bytes, sent);
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
