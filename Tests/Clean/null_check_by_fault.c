// A handler installed before any allocation recovers from null accesses, like the null checks of a virtual machine.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf recovery;
static void *fault_address;

static void on_fault(int number, siginfo_t *info, void *context) {
    fault_address = info->si_addr;
    siglongjmp(recovery, number + !context);
}

__attribute__((noinline)) static int read_member(const char *object) {
    __asm__ volatile("" : "+r"(object));
    return object[24];
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    volatile int recovered = 0, sum = 0;
    for (volatile int i = 0; i < 1000; i++) {
        char *object = calloc(1, 100);
        if (sigsetjmp(recovery, 1) == 0) sum += read_member(i % 2 ? object : NULL);
        else recovered += fault_address == (void *)24;
        free(object);
    }
    printf("%d %d\n", recovered, sum);
    return 0;
}
