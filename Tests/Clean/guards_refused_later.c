// After a while the kernel refuses guard pages for freed pages, as under a seccomp filter or with locked memory.
// options: isolated_overhead=100%:isolated_per_context=0:quarantine_bytes=0:retired_bytes=3m
// musl: musl has no malloc_trim

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SIZES = 10, MOST = 4000, ROUNDS = 24 };

// Makes madvise(MADV_GUARD_INSTALL) (102) fail with EINVAL.
static void refuse_guards(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 102, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void) {
    // Slots of most of these sizes straddle page boundaries.
    static const size_t sizes[SIZES] = {5120, 6144, 20480, 28672, 1280, 640, 320, 2560, 448, 48};
    static unsigned char *blocks[SIZES][MOST];
    unsigned random = 1, other = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2) refuse_guards();
        for (int k = 0; k < SIZES; k++) {
            unsigned count = k < 4 ? MOST / 8 : MOST;
            for (unsigned i = 0; i < count; i++) {
                if (blocks[k][i]) continue;
                blocks[k][i] = calloc(1, sizes[k]);
                for (size_t j = 0; j < sizes[k]; j++) other += blocks[k][i][j] != 0;
                memset(blocks[k][i], 7, sizes[k]);
            }
            random = random * 1103515245 + 12345;
            unsigned first = (random >> 8) % count, dead = (random >> 4) % count;
            for (unsigned i = 0; i < dead; i++) {
                free(blocks[k][(first + i) % count]);
                blocks[k][(first + i) % count] = NULL;
            }
        }
        if (round % 2) malloc_trim(0);
    }
    printf("%u bytes other than zero\n", other);
    return 0;
}
