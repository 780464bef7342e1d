// printf() is given a freed string, and loads a whole aligned vector, which begins in front of the block.
// finding: use-after-free
// access: read
// block: size=16 offset=0 state=retired
// stack-access: ~show
// stack-free: drop_text
// stack-alloc: make_text
// exit: 139

#include "../bug.h"

FRAME char *make_text(void) {
    char *text = calloc(1, 16);
    memset(text, 't', 15);
    return text;
}

FRAME void drop_text(char *text) {
    free(text);
    KEEP_FRAME();
}

FRAME int show(const char *text) {
    char line[200];
    int length = snprintf(line, sizeof line, "%s", text);
    KEEP_FRAME();
    return length;
}

int main(void) {
    char *text = make_text();
#ifdef FIXED
    printf("%d\n", show(text));
    drop_text(text);
#else
    drop_text(text);
    printf("%d\n", show(text));
#endif
    return 0;
}
