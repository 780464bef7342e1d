// Blocks are freed that contain pages guarded by the program with MADV_GUARD_INSTALL (if the kernel supports that).

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum { PAGE = 4096, BLOCKS = 20 };

int main(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        if (posix_memalign(&blocks[i], PAGE, 3 * PAGE)) return 1;
        memset(blocks[i], i, 3 * PAGE);
        madvise((char *)blocks[i] + PAGE, PAGE, MADV_GUARD_INSTALL);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return write(1, "freed\n", 6) != 6;
}
