// A SIGSEGV handler faults on pages that it opens itself, on the interrupted stack and on an alternate one.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { page = 4096, depth = 6, rounds = 50 };

static char *pages;
static volatile int calls;

static void open_page(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    char *at = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(page - 1));
    if (at < pages || at >= pages + depth * page) _exit(3);
    calls++;
    // Touch the next page first: the handler's nested call opens it.
    if (at < pages + (depth - 1) * page) at[page] = 1;
    mprotect(at, page, PROT_READ | PROT_WRITE);
}

static void touch(int flags) {
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO | SA_NODEFER | flags};
    sigaction(SIGSEGV, &action, NULL);
    calls = 0;
    for (int i = 0; i < rounds; i++) {
        mprotect(pages, depth * page, PROT_NONE);
        pages[7] = 1;
        free(malloc(100));
    }
    printf("%d calls\n", calls);
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(256 << 10), .ss_size = 256 << 10};
    pages = mmap(NULL, depth * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(0);
    sigaltstack(&stack, NULL);
    touch(SA_ONSTACK);
    touch(0);
    return 0;
}
