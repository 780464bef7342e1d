// A mapping that the program has unmapped itself is read; it was never a heap block.
// finding: wild-access
// access: read
// stack-access: use_value
// exit: 139
// confidence: exact

#include "../bug.h"
#include <sys/mman.h>

FRAME int use_value(const char *page) {
    int value = page[100];
    HOLD(page);
    return value;
}

int main(void) {
    char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    page[100] = 'v';
#ifndef FIXED
    munmap(page, 1 << 20);
#endif
    printf("%c\n", use_value(page));
    return 0;
}
