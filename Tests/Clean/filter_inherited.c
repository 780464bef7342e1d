// A program starts under a seccomp filter that allows only start-up system calls; another process installs two filters.
// static: before libc has found the vDSO, the runtime has to ask the kernel for the time

#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The kernel's list of the calls that load a dynamic program (glibc 2.36 and later), and the calls of malloc.
static const int start_calls[] = {
#ifdef SYS_access // absent from the kernel's newer system call tables, such as arm64's
    SYS_arch_prctl,      SYS_access,     SYS_readlink,
#endif
    SYS_execve,          SYS_brk,        SYS_mmap,        SYS_faccessat, SYS_openat,    SYS_readlinkat,
    SYS_fstat,           SYS_newfstatat, SYS_close,       SYS_read,      SYS_pread64,   SYS_set_tid_address,
    SYS_set_robust_list, SYS_rseq,       SYS_mprotect,    SYS_write,     SYS_prlimit64, SYS_munmap,
    SYS_getrandom,       SYS_exit_group, SYS_rt_sigreturn};

static int install(const struct sock_filter *program, int count, unsigned flags) {
    struct sock_fprog whole = {(unsigned short)count, (struct sock_filter *)program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &whole);
}

static int install_list(const int *calls, int count) {
    struct sock_filter program[80];
    int at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int i = 0; i < count; i++) {
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    return install(program, at, 0);
}

// Installs a filter that ends the process at the system call `call` if the call's argument with the index `argument`
// has any of the bits `bits` set. If `bits` is 0, the filter ends the process at every such call.
static int forbid(int call, int argument, unsigned bits, unsigned flags) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(16 + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    if (!bits) program[3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
    return install(program, sizeof program / sizeof *program, flags);
}

static int work(void) {
    enum { COUNT = 2000 };
    char *blocks[COUNT] = {NULL};
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < COUNT; i++) {
            size_t size = (size_t)(i * 37 + round * 911) % 5000 + 1;
            if (i % 400 == 0) size = 300000;
            free(blocks[i]);
            if (!(blocks[i] = malloc(size))) return 2;
            memset(blocks[i], i, size);
        }
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    return 0;
}

static volatile int stage;
static void *wait_and_work(void *unused) {
    (void)unused;
    void *result = (void *)(long)work();
    while (!stage) usleep(1000);
    return work() ? (void *)1 : result;
}

static int under_two(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_and_work, NULL) != 0) return 20;
    if (work()) return 21;
    // The filters end the process at gettid, and at madvise except MADV_DONTNEED, in all threads; at
    // mprotect(PROT_EXEC) in this thread only.
    if (forbid(SYS_madvise, 2, ~(unsigned)MADV_DONTNEED, SECCOMP_FILTER_FLAG_TSYNC) != 0) return 22;
    if (forbid(SYS_gettid, 0, 0, SECCOMP_FILTER_FLAG_TSYNC) != 0 || forbid(SYS_mprotect, 2, PROT_EXEC, 0) != 0)
        return 23;
    stage = 1;
    void *result;
    if (pthread_join(thread, &result) != 0 || result) return 24;
    sigset_t set;
    sigfillset(&set);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return 25;
    return work();
}

static int finish(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int main(int count, char **words) {
    if (count > 1) return work();
    pid_t child = fork();
    if (child == 0) {
        if (install_list(start_calls, sizeof start_calls / sizeof *start_calls) != 0) _exit(60);
        execl("/proc/self/exe", words[0], "work", (char *)NULL);
        _exit(61);
    }
    printf("executed under a filter: %d\n", finish(child));
    fflush(stdout);
    if ((child = fork()) == 0) _exit(under_two());
    printf("under two filters: %d\n", finish(child));
    return 0;
}
