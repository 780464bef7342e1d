// Memory that the program mapped with mmap is passed to free.
// finding: invalid-free
// access: free
// stack-access: drop_mapping
// exit: 134
// confidence: exact
// detail: what="never allocated"

#include "../bug.h"
#include <sys/mman.h>

FRAME char *make_mapping(void) {
    char *mapping = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) abort();
    strcpy(mapping, "mapping");
    return mapping;
}

FRAME void drop_mapping(char *mapping) {
#ifdef FIXED
    munmap(mapping, 65536);
#else
    free(mapping);
#endif
    KEEP_FRAME();
}

int main(void) {
    char *mapping = make_mapping();
    puts(mapping);
    drop_mapping(mapping);
    return 0;
}
