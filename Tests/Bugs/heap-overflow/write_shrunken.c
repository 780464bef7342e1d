// write() is passed the former size of a block that realloc has shrunk in place.
// finding: heap-overflow
// access: read
// block: size=70 offset=70 state=live language=unknown
// stack-access: empty_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="write" bytes="80" excess="10"

#include "../bug.h"
#include <fcntl.h>
#include <unistd.h>

#ifdef FIXED
enum { buffer_bytes = 80, left = 80 };
#else
enum { buffer_bytes = 80, left = 70 };
#endif

FRAME char *make_buffer(void) {
    char *buffer = malloc(buffer_bytes);
    memset(buffer, 'b', buffer_bytes);
    return buffer;
}

FRAME int empty_buffer(int descriptor, char *buffer) {
    int bytes = (int)write(descriptor, buffer, buffer_bytes);
    KEEP_FRAME();
    return bytes;
}

int main(void) {
    int descriptor = open("/dev/null", O_WRONLY);
    char *buffer = realloc(make_buffer(), left);
    printf("%d\n", empty_buffer(descriptor, buffer));
    free(buffer);
    return 0;
}
