// A heap of many blocks for Benchmarks/graph.py: COUNT blocks of BYTES bytes, two references each, all reachable.
// usage: blocks COUNT BYTES [writes]    "writes": changes memory without pause until its input ends

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void ***table;
static long count;
static size_t bytes;
static volatile int ends;
static volatile uint64_t longest_pause; // longest time between two writes, in nanoseconds

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Writes to one block after the other, and records the longest time between two writes.
static void *write_blocks(void *unused) {
    uint64_t last = now();
    for (long i = 0; !ends; i = (i + 7919) % count) {
        table[i][bytes / 8 - 1] = (void *)1;
        uint64_t time = now();
        if (time - last > longest_pause) longest_pause = time - last;
        last = time;
    }
    return unused;
}

int main(int argument_count, char **arguments) {
    if (argument_count < 3) return 64;
    count = atol(arguments[1]);
    bytes = strtoul(arguments[2], NULL, 10);
    if (count < 1 || bytes < 24) return 64;
    table = malloc((size_t)count * sizeof *table);
    uint64_t random = 1;
    for (long i = 0; i < count; i++) {
        table[i] = calloc(1, bytes);
        if (!table[i]) return 1;
        random = random * 6364136223846793005u + 1442695040888963407u;
        table[i][0] = i ? table[i - 1] : NULL;
        table[i][1] = table[(random >> 33) % (uint64_t)(i + 1)];
    }
    pthread_t writer;
    if (argument_count > 3 && pthread_create(&writer, NULL, write_blocks, NULL)) return 1;
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    ends = 1;
    if (argument_count > 3) {
        pthread_join(writer, NULL);
        printf("%.1f\n", (double)longest_pause / 1e6);
        fflush(stdout);
    }
    _exit(0);
}
