// A default string in a global is freed as if it were the heap buffer that it stands in for.
// finding: invalid-free
// access: free
// stack-access: drop_title
// exit: 134
// confidence: exact
// detail: what="global variable"

#include "../bug.h"

static _Alignas(16) char default_title[32] = "untitled";

FRAME char *title_or_default(char *title) { return title ? title : default_title; }

FRAME void drop_title(char *title) {
#ifdef FIXED
    if (title != default_title) free(title);
#else
    free(title);
#endif
    KEEP_FRAME();
}

int main(void) {
    char *title = title_or_default(NULL);
    puts(title);
    drop_title(title);
    return 0;
}
