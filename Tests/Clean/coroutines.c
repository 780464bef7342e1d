// Coroutines with stacks from malloc allocate on one stack and free on another.
// musl: musl has no swapcontext

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { routines = 10, rounds = 50, stack_bytes = 32768 };

static ucontext_t scheduler, contexts[routines];
static char *mailbox;
static long sum;

static void run(int number) {
    for (int i = 0; i < rounds; i++) {
        if (mailbox) sum += mailbox[0];
        free(mailbox);
        mailbox = malloc((size_t)(number * 100 + i + 1));
        mailbox[0] = (char)number;
        swapcontext(&contexts[number], &scheduler);
    }
}

int main(void) {
    char *stacks[routines];
    for (int i = 0; i < routines; i++) {
        stacks[i] = malloc(stack_bytes);
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = stack_bytes;
        contexts[i].uc_link = &scheduler;
        makecontext(&contexts[i], (void (*)(void))run, 1, i);
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < routines; i++) swapcontext(&scheduler, &contexts[i]);
    for (int i = 0; i < routines; i++) free(stacks[i]);
    free(mailbox);
    printf("%ld\n", sum);
    return 0;
}
