// A mapping of a file is read behind the file's end after the file was truncated: a bus error.
// finding: wild-access
// access: read
// stack-access: use_value
// exit: 135
// confidence: exact

#include "../bug.h"
#include <sys/mman.h>
#include <unistd.h>

FRAME int use_value(const char *page) {
    int value = page[100];
    HOLD(page);
    return value;
}

int main(void) {
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), 8192)) return 1;
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (pages == MAP_FAILED) return 1;
#ifndef FIXED
    if (ftruncate(fileno(file), 4096)) return 1;
#endif
    printf("%d\n", use_value(pages + 4096));
    fclose(file);
    return 0;
}
