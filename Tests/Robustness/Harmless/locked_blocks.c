// Locks blocks (mlock) and frees them without unlocking, unprivileged, within RLIMIT_MEMLOCK. Prints numbers: failed
// locks at first and later, live blocks in the wrong lock state, failed locks of a mapping, and of blocks in a child.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, ROUNDS = 2000, KEPT = 8, THREADS = 4 };

static const char *how;
static int failures;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int is(const char *word) { return !strcmp(how, word); }

static void lock(char *block, size_t bytes) {
    uintptr_t start = (uintptr_t)block, page = start & ~(uintptr_t)4095;
    int result = is("number")     ? (int)syscall(SYS_mlock, block, bytes)
                 : is("on fault") ? mlock2(block, bytes, 1 /* MLOCK_ONFAULT */)
                 : is("rounded")  ? mlock((void *)page, bytes + (start - page))
                                  : mlock(block, bytes);
    if (result) __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
}

// Returns whether smaps shows the page of this address as locked.
static int is_locked(const void *address) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    int here = 0, locked = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2) here = (uintptr_t)address >= low && (uintptr_t)address < high;
        if (here && !strncmp(line, "VmFlags:", 8)) locked = strstr(line, " lo") != NULL;
    }
    if (maps) fclose(maps);
    return locked;
}

static size_t size_of_round(uint64_t *state) {
    return is("large") ? 5000 + next(state) % 30000 : 32 + next(state) % 4969;
}

static void *churn(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = is("small") ? 32 : size_of_round(&state);
        char *block = malloc(bytes);
        if (!block) abort();
        memset(block, 1, bytes);
        lock(block, bytes);
        if (is("grown")) block = realloc(block, bytes * 2);
        if (is("unlocked")) munlock(block, bytes);
        free(block);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    how = words[1];
    rlim_t limit = (rlim_t)atol(words[2]) << 10;
    if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){limit, limit})) return 3;
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) return 4;
    // Blocks that stay live next to those of `churn`: never locked, or ("kept", "rounded") locked until the end.
    char *neighbours[400], *kept[KEPT];
    int stay = is("kept") || is("rounded") ? KEPT : 0;
    for (int i = 0; i < 400; i++) neighbours[i] = malloc(32 + (size_t)i % 64);
    for (int i = 0; i < 400; i += 2) free(neighbours[i]);
    for (int i = 0; i < stay; i++) lock(kept[i] = malloc(48), 48);
    int before = failures;
    pthread_t threads[THREADS];
    if (is("threads")) {
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, churn, (void *)(intptr_t)(i + 1))) return 5;
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    } else {
        churn((void *)1);
    }
    int lost = 0;
    for (int i = 0; i < stay; i++) lost += !is_locked(kept[i]);
    // The program must still be able to lock a mapping of its own, of a quarter of the limit.
    void *own = mmap(NULL, limit / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int refused = mlock(own, limit / 4) != 0;
    munlock(own, limit / 4);
    // A child inherits no locks, but locks and frees blocks too.
    pid_t child = fork();
    if (!child) {
        failures = 0;
        churn((void *)3);
        _exit(failures > 255 ? 255 : failures);
    }
    int status = 0;
    waitpid(child, &status, 0);
    munlockall();
    for (int i = 0; i < stay; i++) lost += is_locked(kept[i]);
    printf("%d %d %d %d %d\n", before, failures - before, lost, refused, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
