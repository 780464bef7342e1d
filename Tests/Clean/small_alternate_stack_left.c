// A handler leaves a small alternate stack by a jump or setcontext after stack overflows: the program keeps that stack.
// options: collect=crashes
// musl: musl has no setcontext

#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

enum { by_jump, by_context, ways, rounds = 4 };

static __thread int way;
static __thread char *stack_start;
static __thread size_t stack_bytes;
static __thread volatile int is_on_stack;
static __thread sigjmp_buf recovery;
static __thread ucontext_t context;
static __thread volatile int left;

static void on_fault(int number) {
    left = number;
    if (way == by_jump) siglongjmp(recovery, 1);
    setcontext(&context);
}

// The runtime does not handle SIGUSR1: the kernel alone selects the stack of this handler.
static void on_user(int number) {
    char here;
    (void)number;
    is_on_stack = (size_t)(&here - stack_start) < stack_bytes;
}

// Causes a fault without a stack overflow. The handler leaves its stack as after an overflow.
static void fault(void) { *(volatile char *)16 = 1; }

__attribute__((noinline)) static long descend(long depth, long limit) {
    volatile char local[500];
    local[0] = (char)depth;
    return depth == limit ? local[0] : descend(depth + 1, limit) + local[0];
}

static const char *whose(void) {
    stack_t now;
    if (sigaltstack(NULL, &now) != 0) return "cannot be told";
    return now.ss_flags == 0 && now.ss_sp == stack_start && now.ss_size == stack_bytes ? "own" : "another";
}

static void *run(void *text) {
    size_t least = getauxval(AT_MINSIGSTKSZ);
    stack_bytes = 4096 + (least > 2048 ? least : 2048);
    // The cap keeps the stack small where vector registers make AT_MINSIGSTKSZ large.
    if (stack_bytes > 16000) stack_bytes = 16000;
    stack_start = malloc(stack_bytes);
    stack_t stack = {.ss_sp = stack_start, .ss_size = stack_bytes};
    sigaltstack(&stack, NULL);
    for (volatile int round = 0; round < rounds * ways; round++) {
        way = round % ways;
        volatile int times = 0;
        left = 0;
        if (way == by_jump) times = sigsetjmp(recovery, 1);
        else getcontext(&context);
        if (!left) {
            if (round / ways == 2) fault();
            else times += (int)descend(0, -1);
        }
        // If the handler was left by setcontext, the runtime notices this only at the next fault or sigaltstack() query
        // of the program.
        const char *said = way == by_jump || round % 3 ? whose() : "own";
        is_on_stack = -1;
        if (way == by_jump || round % 3) raise(SIGUSR1);
        printf("%s %d: %s, %s\n", (char *)text, round, said,
               is_on_stack == 0 ? "handlers run elsewhere" : "handlers run there");
        free(malloc(100));
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack_start);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER},
                     user = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGUSR1, &user, NULL);
    run("main");
    pthread_t thread;
    pthread_create(&thread, NULL, run, "thread");
    pthread_join(thread, NULL);
    return 0;
}
