// A block is freed through the address of its last byte.
// finding: invalid-free
// access: free
// block: size=333 offset=332 state=live language=unknown
// stack-access: drop_text
// stack-alloc: make_text
// exit: 134
// confidence: exact
// detail: what="interior pointer|misaligned"

#include "../bug.h"

FRAME char *make_text(size_t size) {
    char *text = malloc(size);
    memset(text, 't', size);
    text[size - 1] = 0;
    return text;
}

FRAME void drop_text(char *text) {
    free(text);
    KEEP_FRAME();
}

int main(void) {
    char *text = make_text(333);
    char *end = text + strlen(text);
    printf("%d\n", (int)(end - text));
#ifdef FIXED
    drop_text(text);
#else
    drop_text(end);
#endif
    return 0;
}
