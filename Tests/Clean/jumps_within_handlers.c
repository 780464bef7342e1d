// Handlers that interrupt malloc and free use longjmp inside the handler: the interrupted call goes on.

// The handlers run on the interrupted stack and on alternate stacks (heap, global, main's frame). They jump out of
// nested calls and out of a nested handler. Every block must keep its contents.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { signals = 400, stack_bytes = 65536 };

static volatile sig_atomic_t runs, jumps, nested, wrong;
static sigjmp_buf from_nested;

__attribute__((noinline)) static void jump_from(int depth, jmp_buf back) {
    volatile char room[200];
    room[0] = (char)depth;
    if (depth > 0) jump_from(depth - 1, back);
    if (room[0] == 0) longjmp(back, 1 + room[0]);
}

static void on_nested(int number) {
    nested++;
    siglongjmp(from_nested, number);
}

static void again(void) {
    struct itimerval soon = {.it_value = {0, 70}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_alarm(int number) {
    jmp_buf here;
    volatile int local = number + runs;
    int value = setjmp(here);
    if (value == 0) jump_from(runs % 5, here);
    if (value != 1 || local != number + runs) wrong++;
    sigjmp_buf there;
    if (sigsetjmp(there, 1) == 0) siglongjmp(there, 1);
    if (sigsetjmp(from_nested, 1) == 0) raise(SIGUSR1);
    jumps++;
    if (++runs < signals) again();
}

// Fills each block with its size; checks and frees the block 64 rounds later.
__attribute__((noinline)) static void work(const char *where) {
    static char *blocks[64];
    static size_t sizes[64];
    runs = jumps = nested = 0;
    again();
    for (size_t round = 1; runs < signals; round++) {
        size_t at = round % 64, size = round * 37 % 1500 + 1;
        for (size_t i = 0; blocks[at] && i < sizes[at]; i += 97) wrong += blocks[at][i] != (char)sizes[at];
        free(blocks[at]);
        blocks[at] = malloc(size);
        sizes[at] = size;
        memset(blocks[at], (char)size, size);
    }
    printf("%s: %d runs, %d jumps, %d from nested handlers, %d wrong\n", where, (int)runs, (int)jumps, (int)nested,
           (int)wrong);
}

int main(void) {
    static char global[stack_bytes];
    char inside[stack_bytes];
    struct sigaction action = {.sa_handler = on_alarm}, inner = {.sa_handler = on_nested};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &inner, NULL);
    work("interrupted stack");
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGALRM, &action, NULL);
    char *stacks[] = {malloc(stack_bytes), global, inside};
    const char *names[] = {"heap", "global", "frame of main"};
    for (int i = 0; i < 3; i++) {
        stack_t stack = {.ss_sp = stacks[i], .ss_size = stack_bytes};
        sigaltstack(&stack, NULL);
        work(names[i]);
        inner.sa_flags ^= SA_ONSTACK;
        sigaction(SIGUSR1, &inner, NULL);
    }
    return 0;
}
