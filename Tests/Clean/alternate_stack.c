// A program has no alternate signal stack at first, then sets its own and gets exactly that stack.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *stack;
static volatile int on_stack, runs;

static void on_signal(int number) {
    char local = 0;
    uintptr_t here = (uintptr_t)&local;
    on_stack += here > (uintptr_t)stack && here < (uintptr_t)stack + 65536 && number == SIGUSR1;
    char *copy = strdup("made in the handler");
    runs += copy[0] == 'm';
    free(copy);
}

int main(void) {
    stack_t before = {0}, mine = {0}, after = {0};
    sigaltstack(NULL, &before);
    stack = malloc(65536);
    mine.ss_sp = stack;
    mine.ss_size = 65536;
    printf("%d\n", sigaltstack(&mine, NULL));
    sigaltstack(NULL, &after);
    printf("%d %d %zu %d\n", before.ss_flags, after.ss_sp == stack, after.ss_size, after.ss_flags);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    printf("%d %d\n", on_stack, runs);
    mine.ss_flags = SS_DISABLE;
    printf("%d\n", sigaltstack(&mine, NULL));
    sigaltstack(NULL, &after);
    printf("%d\n", after.ss_flags);
    free(stack);
    return 0;
}
