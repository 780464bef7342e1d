// A page that the program made read-only is written.
// finding: wild-access
// access: write
// stack-access: set_value
// exit: 139
// confidence: exact

#include "../bug.h"
#include <sys/mman.h>

FRAME void set_value(char *page) {
    page[100] = 'v';
    HOLD(page);
}

int main(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
#ifndef FIXED
    mprotect(page, 4096, PROT_READ);
#endif
    set_value(page);
    printf("%c\n", page[100]);
    return 0;
}
