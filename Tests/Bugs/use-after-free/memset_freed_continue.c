// memset() writes to a freed block. With on_finding=continue, the change is not reported again when the program ends.
// finding: use-after-free
// access: write
// block: size=200 offset=0 state=quarantined language=unknown
// stack-access: clear_buffer
// stack-free: drop_buffer
// stack-alloc: make_buffer
// options: isolated_per_context=0:on_finding=continue
// exit: 99
// confidence: exact
// detail: call="memset" bytes="200"
// stdout: done
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

FRAME void clear_buffer(char *buffer) {
    memset(buffer, 0, 200);
    KEEP_FRAME();
}

int main(void) {
    char *buffer = make_buffer();
#ifndef FIXED
    drop_buffer(buffer);
#endif
    clear_buffer(buffer);
    puts("done");
#ifdef FIXED
    drop_buffer(buffer);
#endif
    return 0;
}
