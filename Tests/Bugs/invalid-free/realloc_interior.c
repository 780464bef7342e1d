// realloc gets a pointer to the middle of a string.
// finding: invalid-free
// access: free
// block: size=64 offset=16 state=live language=unknown
// stack-access: grow_text
// stack-alloc: make_text
// exit: 134
// confidence: exact
// detail: what="interior pointer"

#include "../bug.h"

FRAME char *make_text(void) {
    char *text = malloc(64);
    strcpy(text, "0123456789abcdef and more");
    return text;
}

FRAME char *grow_text(char *text) {
    char *grown = realloc(text, 256);
    KEEP_FRAME();
    return grown;
}

int main(void) {
    char *text = make_text();
#ifdef FIXED
    text = grow_text(text);
#else
    text = grow_text(text + 16) - 16;
#endif
    puts(text);
    free(text);
    return 0;
}
