// Thousands of coroutines on stacks from malloc and mmap start and end while others run; all share call sites.
// musl: musl has no getcontext

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 2000, ROUNDS = 30, STEPS = 6 };

struct coroutine {
    ucontext_t context;
    char *stack;
    size_t bytes;
    int number, done;
};

static struct coroutine coroutines[COROUTINES];
static ucontext_t scheduler;
static uint64_t sum;

__attribute__((noinline)) static char *allocate(int depth, int number) {
    char room[700];
    memset(room, number, sizeof room);
    char *block = depth ? allocate(depth - 1, number) : malloc((size_t)(number % 300) + 8);
    if (!depth) memset(block, number, 8);
    sum += (unsigned char)room[number % 700];
    return block;
}

static void run(int number) {
    struct coroutine *self = &coroutines[number];
    for (int step = 0; step < STEPS; step++) {
        char *block = allocate(3 + number % 9, number);
        swapcontext(&self->context, &scheduler);
        sum += (unsigned char)block[7];
        free(block);
    }
    self->done = 1;
}

static int start(int number, int round) {
    struct coroutine *self = &coroutines[number];
    self->bytes = (size_t)(32 + 16 * ((number + round) % 4)) << 10;
    int mapped = (number + round) % 3;
    self->stack = mapped ? mmap(NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                         : malloc(self->bytes);
    if (!self->stack || self->stack == MAP_FAILED) return 0;
    self->number = number, self->done = 0;
    getcontext(&self->context);
    self->context.uc_stack.ss_sp = self->stack;
    self->context.uc_stack.ss_size = self->bytes;
    self->context.uc_link = &scheduler;
    makecontext(&self->context, (void (*)(void))run, 1, number);
    return 1;
}

static void end(int number, int round) {
    struct coroutine *self = &coroutines[number];
    if ((number + round) % 3) munmap(self->stack, self->bytes);
    else free(self->stack);
}

int main(void) {
    int started[COROUTINES];
    for (int i = 0; i < COROUTINES; i++) {
        started[i] = 0;
        if (!start(i, 0)) return 1;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COROUTINES; i++) {
            swapcontext(&scheduler, &coroutines[i].context);
            if (!coroutines[i].done) continue;
            end(i, started[i]);
            started[i] = round;
            if (!start(i, round)) return 1;
        }
    printf("%ju\n", (uintmax_t)sum);
    return 0;
}
