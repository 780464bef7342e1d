// A process limits its address space or forbids itself mremap, and forks: parent and child still use the old blocks.
// options: profile=fence:isolated_windows=all

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 500, BYTES = 60 };
static char *blocks[BLOCKS];

static void make(void) {
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
            blocks[i] = memset(malloc(BYTES), i, BYTES);
        }
}

static int changed(void) {
    int count = 0;
    for (int i = 0; i < BLOCKS; i++)
        for (int j = 0; j < BYTES; j++) count += blocks[i][j] != (char)i;
    return count;
}

static void limit(void) {
    struct rlimit wanted = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    if (setrlimit(RLIMIT_AS, &wanted) != 0) exit(3);
}

static void limit_otherwise(void) {
    struct rlimit wanted = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    if (prlimit(0, RLIMIT_AS, &wanted, NULL) != 0) exit(3);
}

static void forbid(void) {
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        exit(3);
}

// Runs in its own process because the limit cannot be lifted again.
static void try(const char *what, void (*restrict_it)(void)) {
    int status = -1;
    pid_t parent = fork();
    if (!parent) {
        make();
        restrict_it();
        pid_t child = fork();
        if (!child) {
            int wrong = changed();
            for (int i = 0; i < BLOCKS; i++) free(memset(blocks[i], 0xee, BYTES));
            free(malloc(BYTES));
            _exit(wrong != 0);
        }
        waitpid(child, &status, 0);
        int wrong = changed();
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        _exit(status ? 1 : wrong ? 2 : 0);
    }
    waitpid(parent, &status, 0);
    printf("%s: %x\n", what, status);
    fflush(stdout);
}

int main(void) {
    try("setrlimit", limit);
    try("prlimit", limit_otherwise);
    try("a filter", forbid);
    return 0;
}
