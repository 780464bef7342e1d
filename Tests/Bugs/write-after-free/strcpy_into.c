// A string is copied into a freed buffer.
// finding: write-after-free
// access: write
// block: size=128 offset=0 state=quarantined language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_title
// stack-alloc: make_title
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0:witnesses=0

#include "../bug.h"

FRAME char *make_title(void) {
    char *title = malloc(128);
    title[0] = 0;
    return title;
}

FRAME void drop_title(char *title) {
    free(title);
    KEEP_FRAME();
}

FRAME void set_title(char *title, const char *text) {
    strcpy(title, text);
    KEEP_FRAME();
}

int main(void) {
    char *title = make_title();
#ifdef FIXED
    set_title(title, "late title");
    drop_title(title);
#else
    drop_title(title);
    set_title(title, "late title");
#endif
    puts("end");
    return 0;
}
