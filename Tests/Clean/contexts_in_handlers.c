// Handlers that interrupt malloc and free switch to another context and back.
// musl: musl has no swapcontext

// The handlers switch by swapcontext, setcontext and longjmp. The other context's stack is a heap block or is in main's
// frame.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { signals = 200, stack_bytes = 65536 };

static volatile sig_atomic_t runs, wrong, visits, is_idle, jumps_are_ready;
static ucontext_t handler_context, helper_context;
static jmp_buf handler_jump, helper_jump;
static char *helper_stack;

static void visit(void) {
    char local;
    wrong += (size_t)(&local - helper_stack) >= stack_bytes;
    visits++;
    if (is_idle) free(malloc(100));
    if (runs % 16) return;
    pid_t child = fork();
    int status = 1;
    if (child == 0) _exit(0);
    if (waitpid(child, &status, 0) != child || status) wrong++;
}

static void help(void) {
    for (;;) {
        if (setjmp(helper_jump) == 0) {
            jumps_are_ready = 1;
            swapcontext(&helper_context, &handler_context);
            visit();
        } else {
            visit();
            longjmp(handler_jump, 1);
        }
    }
}

static void again(void) {
    struct itimerval soon = {.it_value = {0, 100}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_alarm(int number) {
    volatile char frame[1000];
    memset((void *)frame, number + runs, sizeof frame);
    swapcontext(&handler_context, &helper_context);
    ucontext_t here;
    volatile int came = 0;
    getcontext(&here);
    if (came++ == 0) setcontext(&here);
    for (unsigned i = 0; i < sizeof frame; i++) wrong += frame[i] != (char)(number + runs);
    if (++runs < signals) again();
}

// Jumping to helper_jump is valid: the helper is suspended in the function that called setjmp, so its frame exists.
static void on_user_signal(int number) {
    volatile int before = number + visits;
    if (setjmp(handler_jump) == 0) longjmp(helper_jump, 1);
    wrong += before + 1 != number + visits;
}

static void work(const char *where, char *stack) {
    helper_stack = stack;
    getcontext(&helper_context);
    helper_context.uc_stack.ss_sp = stack;
    helper_context.uc_stack.ss_size = stack_bytes;
    makecontext(&helper_context, help, 0);
    runs = visits = is_idle = 0;
    swapcontext(&handler_context, &helper_context);
    again();
    for (size_t round = 1; runs < signals; round++) {
        void *volatile block = malloc(round % 2500 + 1);
        free(block);
    }
    is_idle = 1;
    raise(SIGALRM);
    printf("%s: %d runs, %d visits, %d wrong\n", where, (int)runs, (int)visits, (int)wrong);
    fflush(stdout);
}

int main(void) {
    char inside[stack_bytes], signal_stack[stack_bytes];
    struct sigaction action = {.sa_handler = on_alarm}, other = {.sa_handler = on_user_signal};
    stack_t stack = {.ss_sp = signal_stack, .ss_size = stack_bytes};
    sigaction(SIGUSR1, &other, NULL);
    for (int i = 0; i < 2; i++) {
        sigaction(SIGALRM, &action, NULL);
        work("heap", malloc(stack_bytes));
        work("frame of main", inside);
        sigaltstack(&stack, NULL);
        action.sa_flags = SA_ONSTACK;
    }
    raise(SIGUSR1);
    printf("%d wrong\n", (int)wrong);
    return 0;
}
