// A program executes another under a filter that the runtime cannot see. The filter allows all calls of both programs.
// processor: x86_64 (system calls without libc)

#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int forbidden[] = {SYS_getresuid, SYS_getresgid, SYS_getxattr};
enum { COUNT = sizeof forbidden / sizeof *forbidden };

static long call_prctl(long what, long first, const void *second) {
    register long third __asm__("r10") = 0;
    register long fourth __asm__("r8") = 0;
    long result = SYS_prctl;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(what), "S"(first), "d"(second), "r"(third), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

static long install(void) {
    struct sock_filter program[2 * COUNT + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    unsigned short at = 1;
    for (int i = 0; i < COUNT; i++) {
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i], 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {at, program};
    long result = call_prctl(PR_SET_NO_NEW_PRIVS, 1, NULL);
    return result ? result : call_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole);
}

int main(void) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (install()) _exit(1);
        execl("/bin/echo", "echo", "executed", (char *)NULL);
        _exit(2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("%x\n", status);
    return 0;
}
