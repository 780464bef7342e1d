// Holds live memory in blocks of 300 to 600 bytes, repeatedly frees a third of them and allocates others, and prints
// "held" at the end.
//   hold KIB PROCESSES THREADS ROUNDS SHAPE [WAITS]
// SHAPE: mixed (each freed block is replaced at once), batch (a third is freed, then as many are allocated), fill
// (nothing is freed), phases (all blocks are freed, then others of different sizes allocated), stacks (mixed, allocated
// from a thousand stacks).
// All threads of all processes hold equal parts of KIB. With WAITS each process prints "half" when each of its threads
// holds half of its part, and continues after it has read a line.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t part;
static int rounds;
static char shape;
static pthread_barrier_t halves;
static int waits;
static __thread uint64_t state;
static __thread int phase;

static uint32_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32);
}

// Several allocation functions, so that there are several call sites, as in real programs.
__attribute__((noinline)) static char *make_a(size_t size) { return memset(malloc(size), 'a', size); }
__attribute__((noinline)) static char *make_b(size_t size) { return memset(calloc(1, size), 'b', size); }
__attribute__((noinline)) static char *make_c(size_t size) {
    char *block = malloc(size / 2);
    return memset(realloc(block, size), 'c', size);
}

static char *make(void) {
    size_t size = shape == 'p' ? 300 + 100 * (size_t)(phase % 3) + next() % 101 : 300 + next() % 301;
    switch (next() % 3) {
    case 0: return make_a(size);
    case 1: return make_b(size);
    default: return make_c(size);
    }
}

static __thread uint64_t depths[2];

// Allocates with a distinct stack for each number below 1024.
__attribute__((noinline)) static char *make_below(uint32_t number, int left) {
    if (!left) return make();
    char *block;
    if (number & 1) block = make_below(number >> 1, left - 1), depths[1]++;
    else block = make_below(number >> 1, left - 1), depths[0]++;
    __asm__ volatile("" : "+r"(block)); // prevents a tail call
    return block;
}

static char *make_any(void) { return shape == 's' ? make_below(next() % 1024, 10) : make(); }

static void *hold(void *seed) {
    size_t count = part / 450;
    state = 88172645463325252 + 977 * (uint64_t)(uintptr_t)seed;
    char **blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < count; i++) {
        if (waits && i == count / 2) pthread_barrier_wait(&halves), pthread_barrier_wait(&halves);
        blocks[i] = make_any();
    }
    for (int round = 0; round < rounds && shape != 'f'; round++) {
        for (size_t i = 0; i < count; i++) {
            if (shape != 'p' && next() % 3) continue;
            free(blocks[i]);
            blocks[i] = shape == 'b' || shape == 'p' ? NULL : make_any();
        }
        phase++;
        for (size_t i = 0; i < count; i++)
            if (!blocks[i]) blocks[i] = make_any();
    }
    for (size_t i = 0; i < count; i++)
        if (blocks[i][0] != blocks[i][299]) exit(3);
    return NULL;
}

static void *wait_for_line(void *unused) {
    static const char half[] = "half\n";
    char line[16];
    pthread_barrier_wait(&halves);
    if (write(1, half, sizeof half - 1) < 0 || read(0, line, sizeof line) < 0) exit(5);
    pthread_barrier_wait(&halves);
    return unused;
}

static int hold_in_threads(int threads, int seed) {
    pthread_t others[64], waiter;
    if (waits) {
        pthread_barrier_init(&halves, NULL, (unsigned)threads + 1);
        pthread_create(&waiter, NULL, wait_for_line, NULL);
    }
    for (int i = 1; i < threads; i++) pthread_create(&others[i], NULL, hold, (void *)(uintptr_t)(seed * 64 + i));
    hold((void *)(uintptr_t)(seed * 64));
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
    return 0;
}

// Each process keeps its blocks until all others hold theirs or are dead: closed ends of pipes say so. Otherwise chance
// decides how much memory they need together.
static int hold_in_processes(int processes, int threads) {
    int holding[2], end[2], result = 0, status;
    char byte;
    if (pipe(holding) || pipe(end)) return 6;
    for (int i = 0; i < processes; i++) {
        if (fork() != 0) continue;
        close(end[1]);
        hold_in_threads(threads, i + 1);
        close(holding[1]);
        _exit(read(end[0], &byte, 1) == 0 ? 0 : 7);
    }
    close(holding[1]);
    if (read(holding[0], &byte, 1) != 0) result = 8;
    close(end[1]);
    for (int i = 0; i < processes; i++) {
        wait(&status);
        if (status) result = 4;
    }
    return result;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    int processes = atoi(argv[2]), threads = atoi(argv[3]), result = 0;
    part = ((size_t)atol(argv[1]) << 10) / (size_t)(processes * threads);
    rounds = atoi(argv[4]);
    shape = argv[5][0];
    waits = argc > 6;
    if (processes == 1) {
        result = hold_in_threads(threads, 1);
    } else {
        result = hold_in_processes(processes, threads);
    }
    if (result) return result;
    puts("held");
    return 0;
}
