// A late write is found when the block leaves a small quarantine. Windows are off: in a window, the write would fault.
// finding: write-after-free
// access: write
// block: size=200 offset=50 language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_page
// stack-alloc: make_page
// options: quarantine_bytes=64k:isolated_windows=off
// exit: 134
// detail: found_by="eviction"

#include "../bug.h"

FRAME char *make_page(void) {
    char *page = malloc(200);
    page[0] = 'p';
    return page;
}

FRAME void drop_page(char *page) {
    free(page);
    KEEP_FRAME();
}

FRAME void write_page(char *page) { page[50] = 'w'; }

int main(void) {
    for (int i = 0; i < 100000; i++) {
        char *page = make_page();
#ifdef FIXED
        write_page(page);
#endif
        drop_page(page);
#ifndef FIXED
        if (i == 10) write_page(page);
#endif
    }
    puts("end");
    return 0;
}
