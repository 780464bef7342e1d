// A handler with SA_ONSTACK runs on the interrupted stack until an alternate stack is set, and then on that one.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *stack;
static volatile int runs, on_stack;

static void use_much(int number) {
    volatile char room[2 << 20];
    memset((void *)room, number, sizeof room);
    runs += room[sizeof room / 2] == number;
}

static void look(int number) {
    char local = (char)number;
    uintptr_t here = (uintptr_t)&local;
    on_stack += here > (uintptr_t)stack && here < (uintptr_t)stack + 65536;
}

static int shows_flag(int number) {
    struct sigaction now = {0};
    sigaction(number, NULL, &now);
    return (now.sa_flags & SA_ONSTACK) != 0;
}

int main(void) {
    struct sigaction much = {.sa_handler = use_much, .sa_flags = SA_ONSTACK}, old = {0};
    struct sigaction little = {.sa_handler = look, .sa_flags = SA_ONSTACK}, plain = {.sa_handler = look};
    sigaction(SIGUSR1, &much, NULL);
    for (int i = 0; i < 3; i++) {
        free(malloc(100));
        raise(SIGUSR1);
    }
    sigaction(SIGUSR1, &little, &old);
    sigaction(SIGUSR2, &plain, NULL);
    printf("%d %d %d %d\n", runs, (old.sa_flags & SA_ONSTACK) != 0, shows_flag(SIGUSR1), shows_flag(SIGUSR2));
    raise(SIGUSR1);
    printf("%d\n", on_stack);

    stack = malloc(65536);
    stack_t mine = {.ss_sp = stack, .ss_size = 65536};
    sigaltstack(&mine, NULL);
    raise(SIGUSR1);
    printf("%d\n", on_stack);
    raise(SIGUSR2);
    printf("%d %d %d\n", on_stack, shows_flag(SIGUSR1), shows_flag(SIGUSR2));
    sigaction(SIGUSR1, &plain, &old);
    raise(SIGUSR1);
    printf("%d %d %d\n", on_stack, (old.sa_flags & SA_ONSTACK) != 0, shows_flag(SIGUSR1));
    return 0;
}
