// A garbage collector's write barrier: the handler unprotects a page and the write is repeated.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { pages = 200, page_bytes = 4096 };

static char *heap;
static volatile int dirty;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(page_bytes - 1);
    if (page - (uintptr_t)heap >= pages * page_bytes) abort();
    dirty++;
    mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE);
}

int main(void) {
    heap = mmap(NULL, pages * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return 1;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < pages; i++) {
        char *block = malloc((size_t)(i + 1));
        heap[i * page_bytes + i] = 'w';
        free(block);
    }
    printf("%d\n", dirty);
    return 0;
}
