// A signal handler switches between two contexts, as green thread schedulers do; each finds its frame unchanged.
// musl: musl has no swapcontext

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static ucontext_t contexts[2];
static volatile int current, switches, damaged;

static void preempt(int number) {
    volatile char frame[2000];
    int own = current;
    memset((void *)frame, 'A' + own, sizeof frame);
    switches += number == SIGUSR1;
    current = !own;
    swapcontext(&contexts[own], &contexts[!own]);
    for (unsigned i = 0; i < sizeof frame; i++) damaged += frame[i] != 'A' + own;
}

static void work(void) {
    while (switches < 50) {
        free(malloc(100));
        raise(SIGUSR1);
    }
    printf("%d switches, %d damaged\n", switches, damaged);
    exit(0);
}

int main(void) {
    struct sigaction action = {.sa_handler = preempt, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    getcontext(&contexts[1]);
    contexts[1].uc_stack.ss_sp = malloc(256 << 10);
    contexts[1].uc_stack.ss_size = 256 << 10;
    makecontext(&contexts[1], work, 0);
    work();
}
