// Coroutines with 4 KiB of stack allocate, and so do threads that use most of the smallest stack.
// libs: -pthread -Wl,-z,now
// musl: musl has no swapcontext

// Each coroutine's stack page lies between two inaccessible pages.

#define _GNU_SOURCE
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { routines = 50, rounds = 40, stack_bytes = 4096, used_by_thread = 9000 };

static ucontext_t scheduler, contexts[routines];
static char *mailbox;
static long sum;

static void use(int number, int round) {
    char *block = malloc((size_t)(number * 50 + round + 1)), *other = calloc(3, (size_t)(round * 500 + 1));
    memset(block, number, (size_t)(number * 50 + round + 1));
    block = realloc(block, (size_t)(number * 90 + 100));
    sum += block[0] + other[0];
    free(block);
    free(other);
    free(aligned_alloc(64, 640));
}

static void run(int number) {
    for (int i = 0; i < rounds; i++) {
        if (mailbox) sum += mailbox[0];
        free(mailbox);
        mailbox = malloc((size_t)(number * 100 + i + 1));
        mailbox[0] = (char)number;
        use(number, i);
        swapcontext(&contexts[number], &scheduler);
    }
}

static void *work(void *unused) {
    volatile char *room = alloca(used_by_thread);
    memset((void *)room, 1, used_by_thread);
    for (int i = 0; i < 100; i++) use(i, i);
    return unused;
}

int main(void) {
    char *stacks = mmap(NULL, (size_t)routines * 2 * stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < routines; i++) {
        char *stack = stacks + (2 * i + 1) * stack_bytes;
        if (mprotect(stack, stack_bytes, PROT_READ | PROT_WRITE)) return 1;
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stack;
        contexts[i].uc_stack.ss_size = stack_bytes;
        contexts[i].uc_link = &scheduler;
        makecontext(&contexts[i], (void (*)(void))run, 1, i);
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < routines; i++) swapcontext(&scheduler, &contexts[i]);
    free(mailbox);
    printf("%ld\n", sum);

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, NULL)) return 1;
        pthread_join(thread, NULL);
    }
    puts("end");
    return 0;
}
