// Processes that the program makes by a system call instruction use the existing blocks and allocate others.
// options: profile=fence:isolated_windows=all

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { count = 100, bytes = 100 };

static char *blocks[count];

// Calls clone without a stack and without shared memory, like fork.
static long make_process(void) {
#if defined __x86_64__
    long result;
    register long fourth __asm__("r10") = 0;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long number __asm__("x8") = SYS_clone;
    register long first __asm__("x0") = SIGCHLD, second __asm__("x1") = 0, third __asm__("x2") = 0;
    register long fourth __asm__("x3") = 0, fifth __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth) : "memory");
    return first;
#endif
}

static int lost(char with) {
    int lost = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < bytes; j++) lost += blocks[i][j] != (char)(with + i);
    return lost;
}

static void fill(char with) {
    for (int i = 0; i < count; i++) memset(blocks[i], with + i, bytes);
}

static int status_of(long child) {
    int status = -1;
    if (child > 0) waitpid((pid_t)child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

int main(void) {
    for (int i = 0; i < count; i++) blocks[i] = malloc(bytes);
    fill('a');
    for (int round = 0; round < 3; round++) {
        long child = make_process();
        if (!child) {
            int wrong = lost('a');
            fill('A');
            for (int i = 0; i < count; i += 2) free(blocks[i]);
            for (int i = 0; i < count; i += 2) blocks[i] = malloc(bytes);
            fill('b');
            long grandchild = make_process();
            if (!grandchild) {
                wrong += lost('b');
                fill('c');
                _exit(wrong + lost('c') != 0);
            }
            wrong += status_of(grandchild) != 0;
            _exit(wrong + lost('b') != 0);
        }
        printf("child %d, parent %d\n", status_of(child), lost('a'));
    }
    for (int i = 0; i < count; i++) free(blocks[i]);
    return 0;
}
