// A program sets and queries alternate stacks and handlers by call number, through libc's syscall().
// libs: -lpthread

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

enum { stack_bytes = 65536 };
static sigjmp_buf recovery;
static char *stack;
static volatile int on_stack;

static void look(int number) {
    char local = (char)number;
    on_stack += (uintptr_t)&local - (uintptr_t)stack < stack_bytes;
}

static void recover(int number) { siglongjmp(recovery, number); }

static void show_stack(const char *when) {
    stack_t now = {0};
    long result = syscall(SYS_sigaltstack, NULL, &now);
    printf("%s: %ld, flags %d, size %zu, ours %d\n", when, result, now.ss_flags, now.ss_size,
           stack && now.ss_sp == stack);
}

static void show_action(int number) {
    struct kernel_action now = {0};
    long result = syscall(SYS_rt_sigaction, number, NULL, &now, 8);
    printf("%ld: default %d, look %d, recover %d, flags %lx, mask %lx\n", result, now.handler == SIG_DFL,
           now.handler == look, now.handler == recover, now.flags & ~0x04000000ul, now.mask);
}

static void *in_thread(void *unused) {
    show_stack("thread");
    return unused;
}

int main(void) {
    pthread_t thread;
    free(malloc(100));
    show_stack("start");
    show_action(SIGSEGV);
    show_action(SIGBUS);
    show_action(SIGUSR1);
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);

    struct sigaction action = {.sa_handler = recover, .sa_flags = SA_NODEFER};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGSEGV, &action, NULL);
    show_action(SIGSEGV);
    struct kernel_action theirs = {0}, before = {0};
    syscall(SYS_rt_sigaction, SIGSEGV, NULL, &theirs, 8);
    theirs.flags |= SA_RESTART;
    printf("%ld\n", syscall(SYS_rt_sigaction, SIGSEGV, &theirs, &before, 8));
    printf("%d\n", before.handler == recover);
    show_action(SIGSEGV);
    for (volatile int i = 0; i < 3; i++) {
        if (sigsetjmp(recovery, 1) == 0) *(volatile int *)(uintptr_t)8 = 1;
        else printf("recovered\n");
    }

    stack = malloc(stack_bytes);
    stack_t mine = {.ss_sp = stack, .ss_size = stack_bytes};
    printf("%ld\n", syscall(SYS_sigaltstack, &mine, NULL));
    show_stack("mine");
    action = (struct sigaction){.sa_handler = look, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    show_action(SIGUSR1);
    raise(SIGUSR1);
    printf("%d\n", on_stack);
    mine.ss_flags = SS_DISABLE;
    printf("%ld\n", syscall(SYS_sigaltstack, &mine, NULL));
    show_stack("disabled");
    raise(SIGUSR1);
    printf("%d\n", on_stack);
    mine = (stack_t){.ss_sp = stack, .ss_size = 100};
    errno = 0;
    long result = syscall(SYS_sigaltstack, &mine, NULL);
    printf("%ld %d\n", result, errno == ENOMEM);
    result = syscall(SYS_rt_sigaction, SIGSEGV, NULL, &before, 7);
    printf("%ld %d\n", result, errno == EINVAL);
    return 0;
}
