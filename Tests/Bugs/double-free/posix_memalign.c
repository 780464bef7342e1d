// A page-aligned block made by posix_memalign is freed twice.
// finding: double-free
// access: free
// block: size=5000 offset=0 state=quarantined language=unknown
// stack-access: drop_again
// stack-free: drop_sector
// stack-alloc: make_sector
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME char *make_sector(void) {
    void *sector = NULL;
    if (posix_memalign(&sector, 4096, 5000)) abort();
    memset(sector, 's', 5000);
    return sector;
}

FRAME void drop_sector(char *sector) {
    free(sector);
    KEEP_FRAME();
}

FRAME void drop_again(char *sector) {
    free(sector);
    KEEP_FRAME();
}

int main(void) {
    char *sector = make_sector();
    printf("%d\n", (int)((uintptr_t)sector % 4096));
    drop_sector(sector);
#ifdef FIXED
    sector = make_sector();
#endif
    drop_again(sector);
    return 0;
}
