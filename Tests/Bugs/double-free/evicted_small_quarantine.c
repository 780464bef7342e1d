// A block is freed again after 20 MB of blocks of the same context have passed through a small quarantine.
// finding: double-free
// access: free
// block: size=720 offset=0 state=reusable language=unknown
// stack-access: drop_again
// stack-free: drop_page
// stack-alloc: make_page
// options: quarantine_bytes=64k:isolated_per_context=0:retired_bytes=0
// exit: 134
// confidence: exact

#include "../bug.h"

FRAME char *make_page(size_t size) {
    char *page = malloc(size);
    page[0] = 'p';
    return page;
}

FRAME void drop_page(char *page) {
    free(page);
    KEEP_FRAME();
}

FRAME void drop_again(char *page) {
    free(page);
    KEEP_FRAME();
}

int main(void) {
    char *stale = NULL;
    for (volatile int i = 0; i < 100000; i++) { // volatile prevents unrolling: one call site makes all pages
        char *page = make_page(i ? 200 : 720);
        if (!i) stale = page;
        drop_page(page);
    }
#ifdef FIXED
    stale = make_page(720);
#endif
    drop_again(stale);
    return 0;
}
