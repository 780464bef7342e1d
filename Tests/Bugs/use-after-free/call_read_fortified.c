// __read_chk(), which programs built with _FORTIFY_SOURCE call, writes into a freed buffer.
// finding: use-after-free
// access: write
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: fill_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="read" bytes="150"
// musl: musl has no __read_chk

#include "../bug.h"
#include <unistd.h>

extern ssize_t __read_chk(int descriptor, void *buffer, size_t bytes, size_t room);

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

FRAME int fill_buffer(int descriptor, char *buffer) {
    int bytes = (int)__read_chk(descriptor, buffer, 150, buffer_bytes);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (pipe(pair) || write(pair[1], "all that comes through", 22) != 22) return 1;
#ifndef FIXED
    drop_buffer(buffer);
#endif
    printf("%d\n", fill_buffer(pair[0], buffer));
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
