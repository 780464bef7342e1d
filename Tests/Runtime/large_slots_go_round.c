// A loop that allocates a block of 16 KiB or more, touches little of it, and frees it: no system calls per block.
// qemu-user: does not finish there without the runtime either
// preload

#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 4000, WARM = 1000 };

static void go_round(int rounds, size_t size) {
    for (int i = 0; i < rounds; i++) {
        volatile unsigned char *block = malloc(size);
        block[0] = block[size - 1] = (unsigned char)i;
        free((void *)block);
    }
}

// Returns the number of system calls that a child makes in ROUNDS rounds after a warm-up, as counted by a tracer; -1 on
// failure.
static long calls_of(size_t size) {
    pid_t child = fork();
    if (!child) {
        go_round(WARM, size);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        go_round(ROUNDS, size);
        _exit(0);
    }
    int status;
    long stops = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
    while (ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        stops++;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? stops / 2 : -1;
}

int main(void) {
    const size_t sizes[] = {16384, 20000, 32768};
    for (int i = 0; i < 3; i++) {
        long calls = calls_of(sizes[i]);
        CHECK(calls >= 0 && calls < ROUNDS / 2, "blocks that go round pay no system calls");
        if (calls < 0 || calls >= ROUNDS / 2) printf("%ld calls in %d rounds of %zu bytes\n", calls, ROUNDS, sizes[i]);
    }
    return check_end();
}
