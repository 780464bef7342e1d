// The last byte of a freed block of odd size is written: the string is terminated after its free.
// finding: write-after-free
// access: write
// block: size=77 offset=76 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_text
// stack-alloc: make_text
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_text(void) {
    char *text = malloc(77);
    memset(text, 't', 77);
    return text;
}

FRAME void drop_text(char *text) {
    free(text);
    KEEP_FRAME();
}

FRAME void terminate(char *text) { text[76] = 0; }

int main(void) {
    char *text = make_text();
#ifdef FIXED
    terminate(text);
    drop_text(text);
#else
    drop_text(text);
    terminate(text);
#endif
    puts("end");
    return 0;
}
