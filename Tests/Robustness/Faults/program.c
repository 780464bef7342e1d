// The reference program of Tests/Robustness/faults.py. A model gives the expected contents of every block; output and
// exit status do not depend on the allocator.
// usage: program clean|bugs|refused|wait
//   clean    all allocation functions, sizes, threads, forks
//   bugs     clean, plus use after free (read, write, late write), double and interior free; main, threads and a child
//   refused  clean, but allocations may return NULL with ENOMEM; output and exit status are those of clean
//   wait     bugs, then waits for the end of its input

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 160, ROUNDS = 1500, THREADS = 3, ODD_BYTES = 5001 };

static bool may_refuse;
static uint64_t wrong, refused;

static void complain(const char *what, uint64_t number) {
    __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    printf("WRONG: %s (%llu)\n", what, (unsigned long long)number);
}

struct block {
    unsigned char *start;
    size_t size;
    unsigned char salt;
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t step_of(size_t size) { return size > 4000 ? size / 61 : 1; }

static void write_all(struct block *block) {
    for (size_t i = 0; i < block->size; i += step_of(block->size)) block->start[i] = (unsigned char)(i + block->salt);
}

static void look_at(const struct block *block, size_t bytes, size_t step, const char *what) {
    for (size_t i = 0; i < bytes; i += step)
        if (block->start[i] != (unsigned char)(i + block->salt)) {
            complain(what, i);
            return;
        }
}

static size_t random_size(uint64_t r) {
    switch (r % 32) {
    case 0: return 1 + (r >> 8) % 1800000;
    case 1:
    case 2: return 1 + (r >> 8) % 90000;
    case 3:
    case 4:
    case 5: return 1 + (r >> 8) % 6000;
    case 6: return 0;
    default: return 1 + (r >> 8) % 400;
    }
}

static void answered(const void *block, const char *what) {
    if (block) return;
    if (may_refuse && errno == ENOMEM) __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    else complain(what, (uint64_t)errno);
}

static void allocate(struct block *block, uint64_t r, uint64_t more) {
    size_t size = random_size(r), alignment = (size_t)16 << more % 10;
    void *made = NULL;
    bool zero = false, aligned = false;
    errno = 0;
    switch (more >> 16 & 7) {
    case 0: made = calloc(size ? size : 1, 1), zero = true; break;
    case 1: made = memalign(alignment, size), aligned = true; break;
    case 2: made = aligned_alloc(alignment, size), aligned = true; break;
    case 3:
        errno = posix_memalign(&made, alignment, size);
        if (errno) made = NULL;
        aligned = true;
        break;
    case 4: made = realloc(NULL, size); break;
    case 5: made = reallocarray(NULL, size, 1); break;
    case 6: made = more >> 20 & 1 ? valloc(size) : malloc(size); break;
    default: made = malloc(size); break;
    }
    answered(made, "an allocation was refused");
    *block = (struct block){made, made ? size : 0, (unsigned char)more};
    if (!made) return;
    size_t promised = size > 8 ? 16 : 2; // isolated blocks of up to 8 bytes are less aligned
    if ((uintptr_t)made % promised || (aligned && (uintptr_t)made % alignment)) complain("alignment", (uintptr_t)made);
    if (malloc_usable_size(made) < size) complain("usable size", size);
    for (size_t i = 0; zero && i < size; i += step_of(size))
        if (block->start[i]) complain("calloc is not zero", i), i = size;
    write_all(block);
}

static void change(struct block *block, uint64_t r) {
    size_t old = block->size, size = random_size(r);
    if (!size) size = 1;
    errno = 0;
    unsigned char *moved = realloc(block->start, size);
    answered(moved, "realloc was refused");
    if (!moved) return; // the old block stays valid
    struct block now = {moved, size, block->salt};
    look_at(&now, old < size ? old : size, step_of(old), "contents after realloc");
    write_all(&now);
    *block = now;
}

static void release(struct block *block) {
    look_at(block, block->size, step_of(block->size), "contents");
    errno = 77;
    free(block->start);
    if (errno != 77) complain("errno after free", (uint64_t)errno);
    *block = (struct block){0};
}

static void *work(void *seed) {
    struct block blocks[BLOCKS] = {0};
    uint64_t state = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t r = next_random(&state), more = next_random(&state);
        struct block *block = &blocks[(r >> 40) % BLOCKS];
        if (!block->start) allocate(block, r, more);
        else if (more >> 32 & 3) release(block);
        else change(block, more);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].start) release(&blocks[i]);
    return NULL;
}

static void run_threads(void *(*function)(void *)) {
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        int failure = pthread_create(&threads[i], NULL, function, (void *)(i + 2));
        if (!failure) continue;
        threads[i] = 0;
        if (!may_refuse || failure != EAGAIN) complain("pthread_create", (uint64_t)failure);
    }
    for (int i = 0; i < THREADS; i++)
        if (threads[i]) pthread_join(threads[i], NULL);
}

static void in_child(void *(*function)(void *), uint64_t seed) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        function((void *)seed);
        fflush(stdout);
        exit(wrong ? 1 : 33);
    }
    int status;
    if (child < 0) complain("fork", (uint64_t)errno);
    else if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 33)
        complain("the child's status", (uint64_t)status);
}

// Prints properties of the environment that a program can observe.
static void look_around(void) {
    int files[3];
    for (int i = 0; i < 3; i++) files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    printf("next descriptors %d %d %d\n", files[0], files[1], files[2]);
    for (int i = 0; i < 3; i++) close(files[i]);
    static volatile uintptr_t nowhere = 16;
    // The kernel accesses blocks.
    int ends[2];
    static char spare[2][ODD_BYTES];
    char *blocks[2] = {malloc(3001), malloc(ODD_BYTES)};
    for (int i = 0; i < 2; i++) answered(blocks[i], "an allocation was refused");
    char *out = blocks[0] ? blocks[0] : spare[0], *in = blocks[1] ? blocks[1] : spare[1];
    if (pipe(ends) == 0) {
        for (int i = 0; i < 3001; i++) out[i] = (char)i;
        ssize_t written = write(ends[1], out, 3001), got = read(ends[0], in, ODD_BYTES);
        printf("through a pipe %zd %zd, %s\n", written, got, memcmp(out, in, 3001) ? "changed" : "the same");
        errno = 0;
        written = write(ends[1], (char *)(uintptr_t)nowhere, 9);
        printf("from nowhere %zd %d\n", written, errno);
        close(ends[0]);
        close(ends[1]);
    }
    for (int i = 0; i < 2; i++) free(blocks[i]);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    int blocked = 0;
    for (int i = 1; i < 65; i++) blocked += sigismember(&mask, i) == 1;
    printf("%d signals are blocked\n", blocked);
    struct sigaction action;
    for (int i = 1; i < 32; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL) printf("signal %d has a handler\n", i);
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    printf("the thread is called %s\n", name);
}

// Allocates a block so large that the runtime asks the kernel whether enough memory is available.
static void use_a_large_block(void) {
    size_t size = ((size_t)1 << 30) + 4097;
    errno = 0;
    unsigned char *block = malloc(size);
    answered(block, "a large allocation was refused");
    if (!block) return;
    block[0] = block[size / 2] = block[size - 1] = 5;
    if (block[0] + block[size / 2] + block[size - 1] != 15) complain("a large block", size);
    free(block);
}

// --- bugs ------------------------------------------------------------------------------------------------------------

static volatile unsigned char sink;
#define NOINLINE __attribute__((noinline))

// libc's blocks have a larger usable size than requested, guarded ones do not. Only guarded blocks are freed twice;
// libc would abort.
static bool is_guarded(void *block) { return malloc_usable_size(block) == ODD_BYTES; }

static NOINLINE unsigned char *dead(void) {
    unsigned char *block = malloc(ODD_BYTES);
    memset(block, 3, ODD_BYTES);
    unsigned char *volatile kept = block;
    free(block);
    return kept;
}
static NOINLINE void read_dead(void) { sink = dead()[2000]; }
static NOINLINE void write_dead(void) { dead()[2000] = 1; }
static NOINLINE void free_twice(void) {
    unsigned char *volatile block = malloc(ODD_BYTES);
    bool guarded = is_guarded(block);
    free(block);
    if (guarded) free(block);
}
static NOINLINE void free_inside(void) {
    unsigned char *volatile block = malloc(ODD_BYTES);
    if (is_guarded(block)) free(block + 16);
    free(block);
}
// Writes to more freed blocks than the runtime isolates, so it finds some of these writes only in its check at exit.
static NOINLINE void write_late(void) {
    unsigned char *volatile kept[24];
    for (int i = 0; i < 24; i++) kept[i] = malloc(ODD_BYTES);
    for (int i = 0; i < 24; i++) free(kept[i]);
    for (int i = 0; i < 24; i++) kept[i][3000] = 9;
}

static NOINLINE void *all_bugs(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) read_dead();
    write_dead();
    free_twice();
    free_inside();
    write_late();
    return NULL;
}
// Frees some blocks of a busy allocation site on rare stacks: in a single-threaded process these get watchpoints.
static NOINLINE void free_deep(void *block, int depth) {
    if (depth) free_deep(block, depth - 1);
    else free(block);
    __asm__("");
}
static NOINLINE char *make_busily(void) { return memset(malloc(64), 1, 64); }
static NOINLINE void free_rarely(void) {
    for (int i = 0; i < 40 * ROUNDS; i++) {
        char *block = make_busily();
        if (i % ROUNDS) free(block);
        else free_deep(block, i / ROUNDS);
    }
}

static NOINLINE void *bugs_of_thread(void *number) { return all_bugs(number); }
static NOINLINE void *bugs_of_child(void *number) { return all_bugs(number); }

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "clean";
    bool bugs = strcmp(what, "bugs") == 0 || strcmp(what, "wait") == 0;
    may_refuse = strcmp(what, "refused") == 0;
    // Prevents stdio from allocating a buffer.
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    look_around();
    if (bugs) {
        free_rarely();
        // Before exec the runtime consumes pending watchpoint signals. No file has this path, so execl returns.
        execl("/nothing/is/here", "nothing", (char *)NULL);
    }
    work((void *)1);
    use_a_large_block();
    run_threads(work);
    in_child(work, 9);
    malloc_trim(0);
    if (bugs) {
        all_bugs(NULL);
        run_threads(bugs_of_thread);
        in_child(bugs_of_child, 0);
    }
    work((void *)7);
    look_around();
    printf("%llu wrong\n", (unsigned long long)wrong);
    if (!may_refuse && refused) printf("refused %llu\n", (unsigned long long)refused);
    fflush(stdout);
    if (strcmp(what, "wait") == 0) {
        char byte;
        while (read(0, &byte, 1) > 0) {
        }
    }
    return wrong ? 3 : 7;
}
