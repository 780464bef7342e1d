// Ends of a program that no signal handler can see (Tests/Reports/ends.py). usage: ends WAY
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void forbid_getppid(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog whole = {sizeof program / sizeof *program, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
    syscall(SYS_getppid);
}

static void burn(rlim_t soft, rlim_t hard) {
    struct rlimit limit = {soft, hard};
    setrlimit(RLIMIT_CPU, &limit);
    for (volatile unsigned long i = 0;; i++) {
    }
}

static void burn_for(double seconds) {
    struct timespec used = {0};
    while ((double)used.tv_sec + (double)used.tv_nsec / 1e9 < seconds) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
}

// Kills itself below its own CPU limit: after three quarters of the limit, or after a child used more than the limit.
static void die_within_limit(double own, double of_child, rlim_t seconds) {
    pid_t child = fork();
    if (child == 0) {
        burn_for(of_child);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    struct rlimit limit = {seconds, seconds};
    setrlimit(RLIMIT_CPU, &limit);
    burn_for(own);
    kill(getpid(), SIGKILL);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    free(malloc(100));
    if (!strcmp(way, "sigkill")) kill(getpid(), SIGKILL);
    if (!strcmp(way, "sigterm")) kill(getpid(), SIGTERM);
    if (!strcmp(way, "soft")) burn(1, 10);
    if (!strcmp(way, "hard")) burn(1, 1);
    if (!strcmp(way, "near")) die_within_limit(1.52, 0, 2);
    if (!strcmp(way, "children")) die_within_limit(0, 1.2, 1);
    if (!strcmp(way, "filter")) forbid_getppid();
    if (!strcmp(way, "strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        syscall(SYS_getppid);
    }
    if (!strcmp(way, "null")) *(volatile int *)(long)(count - 2) = 1;
    if (!strcmp(way, "abort")) abort();
    return 3;
}
