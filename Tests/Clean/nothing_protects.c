// The kernel refuses guard pages and PROT_NONE mappings: freed isolated blocks must not be reused unprotected.
// options: profile=fence:retired_bytes=1m

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { COUNT = 2000 };

// Makes madvise(MADV_GUARD_INSTALL) (102) fail with EINVAL, and mmap(PROT_NONE) with ENOMEM.
static void refuse_protection(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 102, 0, 5),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void) {
    static char *blocks[COUNT];
    int other = 0;
    for (int round = 0; round < 4; round++) {
        if (round == 1) refuse_protection();
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = calloc(1, 3000);
            for (int j = 0; j < 3000; j++) other += blocks[i][j] != 0;
            memset(blocks[i], 1, 3000);
        }
        for (int i = 0; i < COUNT; i++) free(blocks[i]);
    }
    printf("%d bytes other than zero\n", other);
    return 0;
}
