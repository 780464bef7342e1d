// The kernel refuses guard pages for the first time in malloc_trim(): blocks on the unguarded pages are used again.
// options: isolated_overhead=0:isolated_per_context=0:quarantine_bytes=0
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

enum { COUNT = 40000, SIZE = 64 };

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

// Frees the first 500 of every 1000 blocks, so that each run of pages is freed in part, never as a whole.
static void kill_and_trim(void **blocks, int count) {
    for (int i = 0; i < count; i++) {
        if (i % 1000 >= 500) continue;
        free(blocks[i]);
        blocks[i] = NULL;
    }
    malloc_trim(0);
    for (int i = 0; i < COUNT; i++)
        if (!blocks[i]) blocks[i] = memset(malloc(SIZE), 1, SIZE);
}

int main(void) {
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    kill_and_trim(blocks, 1000);
    refuse_guards();
    kill_and_trim(blocks, COUNT);
    puts("done");
    return 0;
}
