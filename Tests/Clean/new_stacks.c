// Four million allocations from distinct stacks, each 28 frames deep, need no more than 100 MiB of memory.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ALLOCATIONS = 4000000, DEPTH = 27, LIVE = 1024, MOST_KIBIBYTES = 100 << 10 };

static volatile int returns;
static void *right(uint64_t path, int depth);

__attribute__((noinline)) static void *left(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns++;
    return block;
}

__attribute__((noinline)) static void *right(uint64_t path, int depth) {
    void *block = !depth ? malloc(24) : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    returns--;
    return block;
}

int main(void) {
    static uint64_t *blocks[LIVE];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < ALLOCATIONS; i++) {
        uint64_t path = i * UINT64_C(0x9e3779b97f4a7c15); // the odd factor makes all paths distinct
        uint64_t **place = &blocks[i % LIVE];
        if (*place) sum += **place;
        free(*place);
        *place = left(path >> 20, DEPTH);
        if (!*place) return 1;
        **place = i;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ju\n", (uintmax_t)sum);
    if (usage.ru_maxrss > MOST_KIBIBYTES) printf("too much memory: %ld KiB\n", usage.ru_maxrss);
    return usage.ru_maxrss > MOST_KIBIBYTES;
}
