// A language runtime such as Go's asks the kernel for each thread's alternate stack and depends on the answer.
// libs: -lpthread -Wl,--hash-style=sysv

// The language runtime takes the existing stack or sets its own, and ends the program if a handler runs on another
// stack. This also applies to faults from which the runtime recovers.

#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// zguard recognizes Go's runtime by this symbol, which every Go program that calls C exports.
// The Go linker itself writes only the older hash table (SysV), hence --hash-style=sysv.
void _cgo_topofstack(void);
void _cgo_topofstack(void) {}

static long bare(long number, long a, long b) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(0) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, 0);
#endif
}

enum { stack_bytes = 32768 };
static __thread uintptr_t low, high;
static __thread sigjmp_buf recovery;
static int handled;

static void handle(int number, siginfo_t *info, void *context) {
    uintptr_t here = (uintptr_t)&info;
    (void)context;
    if (here < low || here >= high) {
        static const char message[] = "the handler is not on the signal stack\n";
        (void)!write(1, message, sizeof message - 1);
        _exit(2);
    }
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    if (number == SIGSEGV) siglongjmp(recovery, 1);
}

static void prepare_thread(void) {
    stack_t found = {0};
    if (bare(SYS_sigaltstack, 0, (long)&found)) abort();
    if (found.ss_flags & SS_DISABLE) {
        found = (stack_t){.ss_sp = malloc(stack_bytes), .ss_size = stack_bytes};
        if (bare(SYS_sigaltstack, (long)&found, 0)) abort();
    }
    low = (uintptr_t)found.ss_sp;
    high = low + found.ss_size;
}

static void *work(void *unused) {
    prepare_thread();
    for (volatile int i = 0; i < 20; i++) {
        free(malloc(100));
        pthread_kill(pthread_self(), SIGURG);
        if (sigsetjmp(recovery, 1) == 0) *(volatile int *)(uintptr_t)(i * 8) = i;
    }
    return unused;
}

int main(void) {
    prepare_thread();
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGURG, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    work(NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("handled %d\n", handled);
    return 0;
}
