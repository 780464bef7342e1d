// Blocks are freed while the program has protected all or some of their pages, and once with all signals blocked.

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { bytes = 200 << 10 };

int main(void) {
    void *blocks[4];
    sigset_t all;
    for (int i = 0; i < 4; i++) {
        if (posix_memalign(&blocks[i], 4096, bytes)) return 1;
        memset(blocks[i], 1, bytes);
    }
    mprotect(blocks[0], bytes, PROT_NONE);
    mprotect((char *)blocks[1] + 8192, 4096, PROT_NONE);
    mprotect(blocks[2], 4096, PROT_NONE);
    mprotect(blocks[3], bytes, PROT_READ);
    for (int i = 0; i < 3; i++) free(blocks[i]);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    free(blocks[3]);
    char *again = malloc(bytes);
    memset(again, 2, bytes);
    free(again);
    puts("freed");
    return 0;
}
