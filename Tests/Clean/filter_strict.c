// In seccomp's strict mode, or with the time-stamp counter disabled, malloc serves requests from freed blocks.
// musl: musl has no mallopt

#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 400 };
static char *blocks[COUNT];

static int work(int rounds) {
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < COUNT; i++) {
            size_t size = (size_t)(i * 37 + round * 91) % 6000 + 1;
            if (i % 100 == 7) size = 50000;
            free(blocks[i]);
            if (!(blocks[i] = malloc(size))) return 2;
            memset(blocks[i], i, size);
            if (i % 9 == 0 && !(blocks[i] = realloc(blocks[i], size + 100))) return 3;
            if (blocks[i][size - 1] != (char)i) return 4;
        }
    for (int i = 0; i < COUNT; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    return 0;
}

static void leave(int code) {
    syscall(SYS_exit, code);
    for (;;) {
    }
}

static int run(int way) {
    pid_t child = fork();
    if (child == 0) {
        // Keep libc from returning memory, so that libc needs no system call to get it again later.
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        free(memset(malloc(32 << 20), 1, 32 << 20));
        if (work(5)) _exit(50);
        if (way == 2) {
            // Instead of strict mode, disable only the time-stamp counter.
            if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) _exit(51);
            int result = work(50);
            if (prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) != 0) _exit(52);
            _exit(result);
        }
        long result = way ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
                          : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
        if (result != 0) _exit(53);
        leave(work(20));
    }
    int status;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int main(void) {
    static const char *const ways[] = {"by prctl", "by seccomp", "the clock alone"};
    for (int way = 0; way < 3; way++) {
        printf("%s: %d\n", ways[way], run(way));
        fflush(stdout);
    }
    return 0;
}
