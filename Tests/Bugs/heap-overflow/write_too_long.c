// write() is passed a length beyond the end of the block, and reads that many bytes.
// finding: heap-overflow
// access: read
// block: size=100 offset=100 state=live language=unknown
// stack-access: empty_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="write" bytes="110" excess="20"

#include "../bug.h"
#include <unistd.h>

#ifdef FIXED
enum { buffer_bytes = 100, sent = 90 };
#else
enum { buffer_bytes = 100, sent = 110 };
#endif

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME int empty_buffer(int descriptor, char *buffer) {
    int bytes = (int)write(descriptor, buffer + 10, sent);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer();
    if (pipe(pair)) return 1;
    printf("%d\n", empty_buffer(pair[1], buffer));
    free(buffer);
    return 0;
}
