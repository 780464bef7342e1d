// Limits its own memory, and allocates until allocation fails: `fill as|data MIB BYTES|mix
// malloc|calloc|realloc|memalign`. Prints the bytes allocated, the CPU time (ns) of these calls and of 2000 more, which
// mostly fail, and how many of ten blocks can be allocated after half of all were freed.

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { REFUSED = 2000 };

static const char *way;

static void *get(size_t bytes) {
    void *block;
    if (!strcmp(way, "calloc")) return calloc(1, bytes);
    if (!strcmp(way, "memalign")) return posix_memalign(&block, 64, bytes) ? NULL : block;
    if (strcmp(way, "realloc")) return malloc(bytes);
    block = malloc(bytes / 2 + 1);
    void *larger = block ? realloc(block, bytes) : NULL;
    if (!larger) free(block);
    return larger;
}

static size_t size_of(const char *word, unsigned long number) {
    static const size_t mixed[] = {24, 100, 700, 5000, 48, 40000, 300, 16, 200000, 1000};
    return strcmp(word, "mix") ? strtoul(word, NULL, 0) : mixed[number % (sizeof mixed / sizeof *mixed)];
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **words) {
    if (count != 5) return 64;
    rlim_t most = strtoul(words[2], NULL, 0) << 20;
    struct rlimit limit = {most, most};
    way = words[4];
    free(malloc(100));
    if (setrlimit(!strcmp(words[1], "as") ? RLIMIT_AS : RLIMIT_DATA, &limit) != 0) return 2;

    struct link {
        struct link *next;
    } *first = NULL;
    size_t got = 0;
    unsigned long number = 0;
    long long start = now();
    for (;; number++) {
        size_t bytes = size_of(words[3], number);
        struct link *link = get(bytes);
        if (!link) break;
        link->next = first;
        first = link;
        got += bytes;
        if (got > 4 * most) return 3;
    }
    if (errno != ENOMEM && strcmp(way, "memalign")) return 4;

    long long filled = now();
    size_t bytes = size_of(words[3], number);
    for (int i = 0; i < REFUSED; i++) {
        struct link *link = get(bytes);
        if (!link) continue;
        link->next = first;
        first = link;
        got += bytes;
    }
    long long refused = now();

    for (unsigned long left = number / 2; left; left--) {
        struct link *next = first->next;
        free(first);
        first = next;
    }
    int again = 0;
    for (int i = 0; i < 10; i++) again += get(bytes) != NULL;
    printf("%zu %lld %lld %d\n", got, filled - start, refused - filled, again);
    return 0;
}
