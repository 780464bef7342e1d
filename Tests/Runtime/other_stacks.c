// Captures on thousands of coroutine stacks rarely need a system call, and work if memory that they read is unmapped.
// qemu-user: seccomp filters are not emulated
// preload
// control

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "processors.h"

enum { COROUTINES = 3000, STACK = 32768, FRAMES = 10, ROUNDS = 20, PAGE = 4096 };

DEFINE_SWITCH_STACK

static void *main_stack, *stacks[COROUTINES];
static int current, calls;
static volatile sig_atomic_t probes;

static __attribute__((noinline)) void *allocate(int depth) {
    volatile char room[1500];
    room[depth] = 1;
    void *block = depth ? allocate(depth - 1) : malloc(40);
    calls += room[depth];
    return block;
}

static void coroutine(void) {
    for (;;) {
        void *block = allocate(FRAMES);
        switch_stack(&stacks[current], main_stack);
        free(block);
    }
}

static void run(int number) {
    current = number;
    switch_stack(&main_stack, stacks[number]);
}

static void on_probe(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    probes++;
    CONTEXT_RESULT(context) = -EPERM;
}

static bool count_probes(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {.sa_sigaction = on_probe, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The topmost return address leads the unwinder beyond the stack, where memory is mapped at first, and unmapped later.
static void check_gone(void) {
    char *pages = mmap(NULL, 8 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *top = pages + 4 * STACK;
    for (int i = 0; i < 10; i++) {
        stacks[0] = stack_for(top, coroutine, (char *)allocate + 40);
        run(0);
        if (i == 3) munmap(top, 4 * STACK);
        if (i == 6) mmap(top, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        run(0);
    }
    CHECK(true, "a stack that the walk would leave upwards, after what lay there has gone");
}

int main(void) {
    check_gone();
    for (int i = 0; i < COROUTINES; i++) {
        char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stacks[i] = stack_for(stack + STACK, coroutine, NULL);
        run(i);
    }
    for (int i = 0; i < COROUTINES; i++) run(i); // the first free on each stack
    if (!CHECK(count_probes(), "the filter is installed")) return check_end();
    calls = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COROUTINES; i++) run(i);
    if (!CHECK(probes < calls / 100, "system calls are rare among captures"))
        fprintf(stderr, "%d system calls in %d captures\n", (int)probes, 2 * ROUNDS * COROUTINES);
    CHECK_EQUAL(calls, ROUNDS * COROUTINES * (FRAMES + 1), "every coroutine ran");
    return check_end();
}
