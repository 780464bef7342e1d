// A full buffer is freed through its write position, which is one past its end.
// finding: invalid-free
// access: free
// block: size=40 offset=40 state=live language=unknown
// stack-access: drop_buffer
// stack-alloc: make_buffer
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME char *make_buffer(void) {
    char *buffer = malloc(40);
    buffer[0] = 0;
    return buffer;
}

FRAME char *fill_buffer(char *position, int count) {
    while (count--) *position++ = 'x';
    return position;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

int main(void) {
    char *buffer = make_buffer();
    char *position = fill_buffer(buffer, 40);
    printf("%d\n", (int)(position - buffer));
#ifdef FIXED
    position -= 40;
#endif
    drop_buffer(position);
    return 0;
}
