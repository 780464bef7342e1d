// read() is passed a length beyond the end of the block, and writes that many bytes.
// finding: heap-overflow
// access: write
// block: size=100 offset=100 state=live language=unknown
// stack-access: fill_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="read" bytes="110" excess="20"

#include "../bug.h"
#include <unistd.h>

#ifdef FIXED
enum { buffer_bytes = 100, wanted = 90 };
#else
enum { buffer_bytes = 100, wanted = 110 };
#endif

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME int fill_buffer(int descriptor, char *buffer) {
    int bytes = (int)read(descriptor, buffer + 10, wanted);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int pair[2];
    char *buffer = make_buffer(), sent[200] = "sent";
    if (pipe(pair) || write(pair[1], sent, sizeof sent) != sizeof sent) return 1;
    printf("%d\n", fill_buffer(pair[0], buffer));
    free(buffer);
    return 0;
}
