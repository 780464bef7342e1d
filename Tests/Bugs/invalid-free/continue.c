// With on_finding=continue an invalid free is reported and has no effect: the global keeps its value.
// finding: invalid-free
// access: free
// stack-access: drop_title
// options: on_finding=continue
// exit: 99
// confidence: exact
// detail: what="global variable"
// stdout: untitled untitled

#include "../bug.h"

static _Alignas(16) char default_title[32] = "untitled";

FRAME void drop_title(char *title) {
#ifdef FIXED
    if (title != default_title) free(title);
#else
    free(title);
#endif
    KEEP_FRAME();
}

int main(void) {
    char before[32];
    strcpy(before, default_title);
    drop_title(default_title);
    printf("%s %s\n", before, default_title);
    return 0;
}
