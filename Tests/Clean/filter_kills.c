// A seccomp filter kills the process at any system call that this program does not make itself: malloc must add none.
// musl: its malloc makes further calls

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int allowed[] = {SYS_brk,          SYS_mmap,      SYS_munmap, SYS_mremap,       SYS_rt_sigprocmask,
                              SYS_rt_sigaction, SYS_write,     SYS_kill,   SYS_rt_sigreturn, SYS_exit_group,
                              SYS_exit,         SYS_getrandom, -1};
// Further calls that libc makes when a program grows a second arena.
static const int wider[] = {SYS_mprotect, SYS_madvise, SYS_futex, SYS_getpid, -1};

static unsigned short fill(struct sock_filter *program, const int *more, unsigned action) {
    unsigned short at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    const int *const lists[] = {allowed, more};
    for (int list = 0; list < 2; list++)
        for (const int *call = lists[list]; call && *call >= 0; call++) {
            program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)*call, 0, 1);
            program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    return at;
}

enum way { by_prctl, by_syscall, by_syscall_prctl, ways };

static int install(enum way way, const int *more, unsigned action) {
    struct sock_filter program[64];
    struct sock_fprog whole = {fill(program, more, action), program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    switch (way) {
    case by_prctl: return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole);
    case by_syscall: return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
    default: return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0);
    }
}

static volatile sig_atomic_t handled;
static void handle(int number) {
    (void)number;
    free(malloc(100));
    handled++;
}

static int work(void) {
    enum { COUNT = 3000 };
    static char *blocks[COUNT];
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < COUNT; i++) {
            size_t size = (size_t)(i * 37 + round * 911) % 3000 + 1;
            if (i % 500 == 0) size = 100000 + (size_t)i * 700;
            free(blocks[i]);
            if (!(blocks[i] = malloc(size))) return 2;
            memset(blocks[i], i, size);
            if (i % 7 == 0 && !(blocks[i] = realloc(blocks[i], size * 2))) return 3;
            if (blocks[i][size - 1] != (char)i) return 4;
        }
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    char *zeros = calloc(1, 3 << 20);
    for (int i = 0; i < 3 << 20; i += 4096)
        if (zeros[i]) return 5;
    free(zeros);
    sigset_t set, old;
    sigfillset(&set);
    if (sigprocmask(SIG_BLOCK, &set, &old) != 0 || sigprocmask(SIG_SETMASK, &old, NULL) != 0) return 6;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK}, before;
    if (sigaction(SIGUSR1, &action, &before) != 0 || sigaction(SIGSEGV, NULL, &before) != 0) return 7;
    return 0;
}

static int run(enum way way, const int *more, int first) {
    pid_t child = fork();
    if (child == 0) {
        if (first) free(malloc(5000));
        // The kernel refuses these arguments: no filter is installed.
        struct sock_fprog none = {0, NULL};
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0 || errno != EFAULT) _exit(60);
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &none) == 0 || errno != EINVAL) _exit(61);
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == 0 || errno != EINVAL) _exit(62);
        signal(SIGUSR1, handle);
        pid_t self = getpid();
        if (install(way, more, SECCOMP_RET_KILL_PROCESS) != 0) _exit(63);
        int result = work();
        kill(self, SIGUSR1);
        _exit(result ? result : handled == 1 ? 0 : 64);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int main(void) {
    for (enum way way = 0; way < ways; way++)
        for (int first = 0; first < 2; first++) {
            printf("way %d, narrow %d: %d\n", way, first, run(way, NULL, first));
            printf("way %d, wider %d: %d\n", way, first, run(way, wider, first));
            fflush(stdout);
        }
    return 0;
}
