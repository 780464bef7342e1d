// memset() clears the former size of a block that realloc has shrunk in place.
// finding: heap-overflow
// access: write
// block: size=70 offset=70 state=live language=unknown
// stack-access: clear_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="memset" bytes="80" excess="10"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

#ifdef FIXED
enum { left = 80 };
#else
enum { left = 70 };
#endif

FRAME char *make_buffer(void) {
    char *buffer = malloc(80);
    KEEP_FRAME();
    return buffer;
}

FRAME void clear_buffer(char *buffer) {
    memset(buffer, 0, 80);
    KEEP_FRAME();
}

int main(void) {
    char *buffer = realloc(make_buffer(), left);
    clear_buffer(buffer);
    printf("%d\n", buffer[0]);
    free(buffer);
    return 0;
}
