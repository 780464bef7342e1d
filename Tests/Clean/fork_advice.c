// Blocks with MADV_DONTFORK or MADV_WIPEONFORK are freed; a child forked afterwards still ends normally.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { bytes = 192 << 10 };

int main(void) {
    static const int advice[] = {MADV_DONTFORK, MADV_WIPEONFORK};
    char *blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i] = aligned_alloc(4096, bytes);
        memset(blocks[i], 1, bytes);
        if (madvise(blocks[i], bytes, advice[i])) return 1;
    }
    for (int i = 0; i < 2; i++) free(blocks[i]);
    pid_t pid = fork();
    if (!pid) {
        free(malloc(100));
        exit(3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    printf("%d %d\n", WIFEXITED(status), WEXITSTATUS(status));
    return 0;
}
