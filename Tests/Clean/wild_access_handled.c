// A handler installed with signal() after allocations recovers from a wild access; signal() returns the old handlers.

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf recovery;

static void on_fault(int number) { siglongjmp(recovery, number); }

__attribute__((noinline)) static long read_value(const long *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return *pointer;
}

int main(void) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = malloc(100);
    for (int i = 0; i < 100; i += 2) free(blocks[i]);
    printf("%d", signal(SIGSEGV, on_fault) == SIG_DFL);
    printf("%d\n", signal(SIGSEGV, on_fault) == on_fault);
    int number = sigsetjmp(recovery, 1);
    if (!number) printf("%ld\n", read_value((const long *)0x1234000000));
    printf("%d\n", number == SIGSEGV);
    printf("%d\n", signal(SIGSEGV, SIG_IGN) == on_fault);
    printf("%d\n", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    for (int i = 1; i < 100; i += 2) free(blocks[i]);
    return 0;
}
