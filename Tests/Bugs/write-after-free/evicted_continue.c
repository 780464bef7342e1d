// A late write is found at eviction; with on_finding=continue the program runs on to its usual end.
// finding: write-after-free
// access: write
// block: size=1000 offset=992 language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_page
// stack-alloc: make_page
// options: quarantine_bytes=64k:on_finding=continue
// exit: 99
// detail: found_by="eviction"
// stdout: end

#include "../bug.h"

FRAME long *make_page(void) {
    long *page = malloc(1000);
    page[0] = 1;
    return page;
}

FRAME void drop_page(long *page) {
    free(page);
    KEEP_FRAME();
}

FRAME void write_page(long *page) { page[124] = 2; }

int main(void) {
    for (int i = 0; i < 20000; i++) {
        long *page = make_page();
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
