// memcpy() reads a freed block that is not isolated.
// finding: use-after-free
// access: read
// block: size=200 offset=100 state=quarantined language=unknown
// stack-access: save_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0
// exit: 134
// confidence: exact
// detail: call="memcpy" bytes="50"
// static: libc's memory and string functions are no witnesses

#include "../bug.h"

FRAME char *make_buffer(void) {
    char *buffer = calloc(1, 200);
    KEEP_FRAME();
    return buffer;
}

FRAME void drop_buffer(char *buffer) {
    free(buffer);
    KEEP_FRAME();
}

FRAME void save_buffer(char *to, const char *buffer) {
    memcpy(to, buffer + 100, 50);
    KEEP_FRAME();
}

int main(void) {
    char saved[50], *buffer = make_buffer();
#ifndef FIXED
    drop_buffer(buffer);
#endif
    save_buffer(saved, buffer);
    printf("%d\n", saved[0]);
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
