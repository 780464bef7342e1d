// A program recovers from stack overflows, many inside malloc and free; other threads' blocks are still recycled.
// libs: -lpthread

#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { blocks = 150000, block_bytes = 1000, growth_most_kib = 100 << 10 };

static sigjmp_buf recovery;
static int pipes[2];

static void on_fault(int number) { siglongjmp(recovery, number); }

__attribute__((noinline)) static int descend(int depth, int limit) {
    volatile char local[48];
    local[0] = (char)depth;
    char *volatile block = malloc(64);
    free(block);
    return depth == limit ? local[0] : descend(depth + 1, limit) + local[0];
}

static long resident_kib(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) abort();
    fclose(file);
    return resident * 4;
}

static void *produce(void *unused) {
    for (int i = 0; i < blocks; i++) {
        char *block = malloc(block_bytes);
        memset(block, 1, block_bytes);
        if (write(pipes[1], &block, sizeof block) != sizeof block) abort();
    }
    return unused;
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    struct rlimit limit;
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 256 << 10;
    setrlimit(RLIMIT_STACK, &limit);
    volatile int recovered = 0;
    for (volatile int i = 0; i < 100; i++) {
        if (sigsetjmp(recovery, 1)) {
            recovered++;
            continue;
        }
        char *volatile room = alloca((size_t)i * 16 + 16); // varies where the stack overflows
        room[0] = 1;
        printf("%d\n", descend(0, -1));
    }
    printf("recovered %d times\n", recovered);

    pthread_t producer;
    if (pipe(pipes)) return 1;
    pthread_create(&producer, NULL, produce, NULL);
    long before = resident_kib();
    for (int i = 0; i < blocks; i++) {
        char *block;
        if (read(pipes[0], &block, sizeof block) != sizeof block) return 1;
        free(block);
    }
    pthread_join(producer, NULL);
    printf("recycled %d\n", resident_kib() - before < growth_most_kib);
    return 0;
}
