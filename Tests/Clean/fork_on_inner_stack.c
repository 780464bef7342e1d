// A handler on an alternate stack in main's frame interrupts malloc and free, and forks.

// If the handler interrupts neither malloc nor free, it also allocates and jumps out. The test repeats this with an
// alternate stack on the heap and a global one.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { signals = 60, stack_bytes = 65536 };

static volatile sig_atomic_t runs, wrong, is_idle;
static sigjmp_buf work_again;
static char *volatile kept;

static void again(void) {
    struct itimerval soon = {.it_value = {0, 200}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void allocate(void) {
    char *block = malloc(100), *other = malloc(5000);
    strcpy(block, "in the handler");
    free(kept);
    kept = block;
    free(other);
}

static void on_alarm(int number) {
    int status = 1, was_idle = is_idle;
    (void)number;
    if (was_idle) allocate();
    pid_t child = fork();
    if (child == 0) {
        if (was_idle) allocate();
        _exit(was_idle && strcmp(kept, "in the handler"));
    }
    if (waitpid(child, &status, 0) != child || status) wrong++;
    if (++runs < signals) again();
    if (was_idle) siglongjmp(work_again, 1);
}

__attribute__((noinline)) static void work(const char *where) {
    runs = 0;
    if (!sigsetjmp(work_again, 1)) again();
    is_idle = 0;
    for (volatile size_t size = 1, before = (size_t)runs; runs < signals; size = size % 3000 + 1) {
        void *volatile block = malloc(size);
        free(block);
        if ((size_t)runs < before + 2) continue;
        before = (size_t)runs;
        is_idle = 1;
        while (is_idle && runs < signals) continue;
    }
    // Do not print the number of jumps: if runs are slow, as in an emulator, no signal may arrive while is_idle is set.
    printf("%s: %d runs, %d wrong\n", where, (int)runs, (int)wrong);
    fflush(stdout);
}

int main(void) {
    static char global[stack_bytes];
    char inside[stack_bytes];
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK};
    char *stacks[] = {inside, malloc(stack_bytes), global};
    const char *names[] = {"frame of main", "heap", "global"};
    for (int i = 0; i < 3; i++) {
        stack_t stack = {.ss_sp = stacks[i], .ss_size = stack_bytes};
        sigaltstack(&stack, NULL);
        sigaction(SIGALRM, &action, NULL);
        work(names[i]);
    }
    return 0;
}
