// The old pointer is freed after realloc has moved the block.
// finding: double-free
// access: free
// block: size=32 offset=0 state=quarantined language=unknown
// stack-access: drop_text
// stack-free: grow_text
// stack-alloc: make_text
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_text(void) {
    char *text = malloc(32);
    strcpy(text, "short");
    return text;
}

FRAME char *grow_text(char *text) {
    char *grown = realloc(text, 200000);
    strcat(grown, " and long");
    return grown;
}

FRAME void drop_text(char *text) {
    free(text);
    KEEP_FRAME();
}

int main(void) {
    char *text = make_text();
    char *grown = grow_text(text);
    puts(grown);
#ifdef FIXED
    drop_text(grown);
#else
    drop_text(text);
#endif
    return 0;
}
