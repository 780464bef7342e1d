// Signal handlers run on alternate stacks set by raw system calls; the kernel's sigaction has the program's own flags.
// libs: -lpthread

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

// Makes a system call by an instruction: the runtime would intercept libc's syscall().
static long bare(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c, d);
#endif
}

enum { stack_bytes = 65536, signals = 4 };
static const int numbers[signals] = {SIGUSR1, SIGUSR2, SIGURG, SIGPROF};
static __thread char *stack;
static __thread volatile int on_stack, elsewhere;

static void look(int number) {
    char local = (char)number;
    uintptr_t here = (uintptr_t)&local;
    if (here > (uintptr_t)stack && here < (uintptr_t)stack + stack_bytes) on_stack++;
    else elsewhere++;
    free(malloc(10));
}

static int kernel_knows(int number) {
    struct kernel_action now = {0};
    if (bare(SYS_rt_sigaction, number, 0, (long)&now, 8)) return 0;
    return now.handler == look && (now.flags & SA_ONSTACK) && (now.flags & SA_RESTART) && !(now.flags & SA_SIGINFO);
}

static void *work(void *unused) {
    free(malloc(100));
    stack = malloc(stack_bytes);
    stack_t mine = {.ss_sp = stack, .ss_size = stack_bytes}, shown = {0};
    if (bare(SYS_sigaltstack, (long)&mine, 0, 0, 0)) abort();
    for (int i = 0; i < signals; i++) pthread_kill(pthread_self(), numbers[i]);
    sigaltstack(NULL, &shown);
    printf("on the stack %d, elsewhere %d, shown %d\n", on_stack, elsewhere, shown.ss_sp == stack && !shown.ss_flags);
    mine.ss_flags = SS_DISABLE;
    if (bare(SYS_sigaltstack, (long)&mine, 0, 0, 0)) abort();
    for (int i = 0; i < signals; i++) pthread_kill(pthread_self(), numbers[i]);
    printf("on the stack %d, elsewhere %d\n", on_stack, elsewhere);
    free(stack);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = look, .sa_flags = SA_ONSTACK | SA_RESTART}, shown = {0};
    for (int i = 0; i < signals; i++) {
        sigaction(numbers[i], &action, NULL);
        sigaction(numbers[i], NULL, &shown);
        printf("%d %d\n", kernel_knows(numbers[i]), (shown.sa_flags & SA_ONSTACK) != 0);
    }
    work(NULL);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
