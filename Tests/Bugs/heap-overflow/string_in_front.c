// libc is given a string that begins three bytes in front of a block, and loads a whole aligned vector.
// finding: heap-overflow
// access: read
// block: size=40 offset=-3 state=live
// stack-access: ~show
// stack-alloc: make_text
// exit: 139
// confidence: inferred
// detail: evidence="nearest to the address"
// musl: a word on the stack points into the block, too

#include "../bug.h"

enum { COUNT = 8 };

FRAME char *make_text(void) {
    char *text = calloc(1, 40);
    memset(text, 't', 39);
    return text;
}

FRAME int show(const char *text) {
    char line[200];
    int length = snprintf(line, sizeof line, "%s", text);
    KEEP_FRAME();
    return length;
}

int main(void) {
    char *texts[COUNT];
    for (int i = 0; i < COUNT; i++) texts[i] = make_text();
    long back = 3;
#ifdef FIXED
    back = 0;
#endif
    FORGET(back);
    for (int i = 0; i < COUNT; i++) printf("%d\n", show(texts[i] - back));
    for (int i = 0; i < COUNT; i++) free(texts[i]);
    return 0;
}
