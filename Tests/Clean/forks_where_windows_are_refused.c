// If mremap is refused, a child and a grandchild use the blocks, each with the contents that its own parent left.
// options: profile=fence:isolated_windows=all

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4000 };

static long *blocks[BLOCKS];

// Makes the call by an instruction in the program, which neither libc nor the runtime can intercept.
static long call(long number, long first, long second, long third) {
#if defined __x86_64__
    long result;
    register long fourth __asm__("r10") = 0;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long what __asm__("x8") = number;
    register long one __asm__("x0") = first, two __asm__("x1") = second, three __asm__("x2") = third;
    register long four __asm__("x3") = 0, five __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(one) : "r"(what), "r"(two), "r"(three), "r"(four), "r"(five) : "memory");
    return one;
#endif
}

static void forbid_mremap(void) {
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
    if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0) exit(3);
    if (call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) != 0) exit(3);
}

static void fill(long with) {
    for (int i = 0; i < BLOCKS; i++) *blocks[i] = with + i;
}

static int lost(long with) {
    int count = 0;
    for (int i = 0; i < BLOCKS; i++) count += *blocks[i] != with + i;
    return count;
}

// Each child checks the blocks, changes them and forks the next child.
static void fork_down(int generations, long with) {
    if (!generations) return;
    pid_t child = fork();
    if (!child) {
        printf("generations to come: %d, lost: %d\n", generations - 1, lost(with));
        fflush(stdout);
        fill(with + BLOCKS);
        fork_down(generations - 1, with + BLOCKS);
        _exit(lost(with + BLOCKS) != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("status: %x, lost: %d\n", status, lost(with));
    fflush(stdout);
}

int main(void) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(40 + (size_t)i % 200);
    fill(0);
    forbid_mremap();
    fork_down(2, 0);
    return 0;
}
