// A program's own handler, on an alternate stack, recovers from stack overflows: this is no finding.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf recovery;

static void on_fault(int number) { siglongjmp(recovery, number); }

__attribute__((noinline)) static long descend(long depth, long limit) {
    volatile char local[500];
    local[0] = (char)depth;
    return depth == limit ? local[0] : descend(depth + 1, limit) + local[0];
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 3; i++) {
        free(malloc(100));
        int number = sigsetjmp(recovery, 1);
        if (number) {
            printf("recovered from %d\n", number == SIGSEGV);
            continue;
        }
        printf("%ld\n", descend(0, -1));
    }
    return 0;
}
