// A signal handler on an alternate stack that lies in the frame of main interrupts malloc and free: it forks, allocates, and jumps out.
// The same with an alternate stack on the heap and in a global.

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

static volatile sig_atomic_t runs, wrong, out;
static sigjmp_buf work_again;
static char *volatile kept;

static void again(void) {
    struct itimerval soon = {.it_value = {0, 200}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_alarm(int number) {
    for (int i = 0; i < 10; i++) {
        char *block = malloc(100), *other = malloc(5000);
        strcpy(block, "in the handler");
        free(kept);
        kept = block;
        free(other);
    }
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) free(malloc((size_t)(i * 50 + number)));
        _exit(strcmp(kept, "in the handler") != 0);
    }
    if (waitpid(child, &status, 0) != child || status) wrong++;
    if (++runs % signals) again();
    if (runs % 3 == 0) {
        out++;
        siglongjmp(work_again, 1);
    }
}

__attribute__((noinline)) static void work(const char *where) {
    runs = out = 0;
    again();
    sigsetjmp(work_again, 1);
    for (volatile size_t size = 1; runs < signals; size = size % 3000 + 1) {
        void *volatile block = malloc(size);
        free(block);
    }
    printf("%s: %d runs, %d jumps out, %d wrong\n", where, (int)runs, (int)out, (int)wrong);
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
