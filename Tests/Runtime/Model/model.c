// Runs a long random sequence of all allocation functions on several threads, and checks every block against a model.
// usage: model OPERATIONS THREADS SEED [fill] [round=N] [huge=MIB] [nofork] [unchecked]
//   fill     read freed blocks, which must contain the fill pattern (for runs in which no freed block was isolated)
//   round    operations of one thread in a round
//   huge     size of the largest block, in MiB
//
// Threads run in rounds, and exchange blocks while they run. The next round's threads take over the blocks that a round
// leaves. Each thread's sequence depends on the seed, its number, and the round; a failure prints these. Between
// rounds, when no thread is in the runtime, the runtime's invariants are checked if it was built with that check.
//
// A map with one byte for each 16 bytes of address space marks live blocks, so that overlapping blocks are found.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../Support/alignment.h"

// C++ operators new and delete, by their mangled names.
void *_Znwm(size_t), *_Znam(size_t), *_ZnwmRKSt9nothrow_t(size_t, const void *),
    *_ZnamRKSt9nothrow_t(size_t, const void *);
void *_ZnwmSt11align_val_t(size_t, size_t), *_ZnamSt11align_val_t(size_t, size_t);
void _ZdlPv(void *), _ZdaPv(void *), _ZdlPvm(void *, size_t), _ZdaPvm(void *, size_t);
void _ZdlPvSt11align_val_t(void *, size_t), _ZdaPvSt11align_val_t(void *, size_t);
void _ZdlPvmSt11align_val_t(void *, size_t, size_t), _ZdaPvmSt11align_val_t(void *, size_t, size_t);
extern const char _ZSt7nothrow;

enum { SLOTS = 2048, THREADS_MOST = 16, SHARED = 64, CHILD_OPERATIONS = 3000 };

enum family { family_c, family_aligned, family_new, family_new_array, family_new_aligned, family_new_array_aligned };

struct block {
    unsigned char *start;
    size_t size;
    uint32_t alignment;
    uint16_t salt;
    uint8_t family;
};

struct worker {
    pthread_t thread;
    struct block blocks[SLOTS];
    uint64_t random, operations, wanted, round;
    unsigned number, window;
    bool is_child;
};

static struct worker workers[THREADS_MOST];
static uint64_t seed, huge_bytes = UINT64_C(300) << 20;
static bool reads_fill, forks = true;
static unsigned char *taken; // one byte for each 16 bytes of address space
static void (*free_sized_function)(void *, size_t);
static void (*free_aligned_sized_function)(void *, size_t, size_t);

static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noreturn, format(printf, 2, 3))) static void fail(const struct worker *worker, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "model: seed %llu thread %u round %llu operation %llu%s: %s\n", (unsigned long long)seed,
            worker->number, (unsigned long long)worker->round, (unsigned long long)worker->operations,
            worker->is_child ? " in a child" : "", text);
    fflush(stderr);
    _exit(1);
}

static inline uint64_t next(struct worker *worker) {
    uint64_t x = worker->random;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    worker->random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

// --- contents --------------------------------------------------------------------------------------------------------

// Returns the expected word i of a block. Blocks of up to SPARSE bytes are written whole, larger ones at both ends and
// at some words between.
enum { SPARSE = 512 };
static inline uint64_t word_of(const struct block *block, uint64_t i) {
    return (block->salt + i) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)0x5a5a;
}
static inline uint64_t next_word(uint64_t i, uint64_t words) {
    if (words <= SPARSE / 8 || i < 8 || i + 8 >= words) return i + 1;
    uint64_t far = i + (words > 131072 ? 65521 : 509);
    return far + 8 < words ? far : words - 8;
}

static void write_contents(const struct block *block) {
    uint64_t words = block->size / 8, rest = block->size % 8, word;
    if (words <= SPARSE / 8) {
        for (uint64_t i = 0; i < words; i++) word = word_of(block, i), __builtin_memcpy(block->start + 8 * i, &word, 8);
    } else {
        for (uint64_t i = 0; i < words; i = next_word(i, words))
            word = word_of(block, i), __builtin_memcpy(block->start + 8 * i, &word, 8);
    }
    word = word_of(block, words);
    if (rest) __builtin_memcpy(block->start + 8 * words, &word, rest);
}

// Checks the first `kept` bytes of a block that was filled at a size of `old` bytes.
static void check_kept(const struct worker *worker, const struct block *block, uint64_t kept, uint64_t old,
                       const char *when) {
    uint64_t words = old / 8, rest = old % 8, word, wrong = 0, expected;
    uint64_t whole = kept / 8 < words ? kept / 8 : words;
    if (words <= SPARSE / 8) {
        for (uint64_t i = 0; i < whole; i++)
            __builtin_memcpy(&word, block->start + 8 * i, 8), wrong |= word ^ word_of(block, i);
    } else {
        for (uint64_t i = 0; i < whole; i = next_word(i, words))
            __builtin_memcpy(&word, block->start + 8 * i, 8), wrong |= word ^ word_of(block, i);
    }
    expected = word_of(block, words);
    if (rest && kept == old && memcmp(block->start + 8 * words, &expected, rest)) wrong = 1;
    if (wrong)
        fail(worker, "a block of %zu bytes at %p does not hold what was written (%s)", block->size,
             (void *)block->start, when);
}

// --- map of live blocks ----------------------------------------------------------------------------------------------

enum { WHOLE_MOST = 1024, STEP = 4096 };

static inline void take_byte(const struct worker *worker, const struct block *block, uintptr_t at) {
    unsigned char *byte = &taken[at >> 4];
    if (*byte)
        fail(worker, "a block of %zu bytes at %p overlaps one in use, at %p", block->size, (void *)block->start,
             (void *)at);
    *byte = 1;
}

static void take_addresses(const struct worker *worker, const struct block *block) {
    uintptr_t start = (uintptr_t)block->start, end = start + (block->size ? block->size : 1);
    if (block->size <= WHOLE_MOST) {
        for (uintptr_t at = start; at < end; at += 16) take_byte(worker, block, at);
        return;
    }
    for (uintptr_t at = start; at < end; at += STEP) take_byte(worker, block, at);
    if ((end - 1 - start) % STEP >= 16) take_byte(worker, block, end - 1);
}

static void leave_addresses(const struct block *block) {
    uintptr_t start = (uintptr_t)block->start, end = start + (block->size ? block->size : 1);
    if (block->size <= WHOLE_MOST) {
        memset(&taken[start >> 4], 0, (end - start + 15) >> 4);
        return;
    }
    for (uintptr_t at = start; at < end; at += STEP) taken[at >> 4] = 0;
    taken[(end - 1) >> 4] = 0;
}

// --- operations ------------------------------------------------------------------------------------------------------

static size_t size_from(struct worker *worker, uint64_t r) {
    unsigned which = r >> 8 & 4095;
    r >>= 24;
    if (which < 3000) return r % 200;
    if (which < 3700) return r % 1200;
    if (which < 3900) { // sizes near the limits of size classes
        size_t base = (size_t)16 << r % 12, quarter = base / 4 * (r >> 8 & 3), by = r >> 16 & 15;
        return base + quarter + by - 7;
    }
    if (which < 3990) return r % 5000;
    if (which < 4080) return r % 33000;
    if (which < 4090) return r % 140000;
    if (which < 4092) return 0;
    if (which < 4095 || (r & 7)) return r % 800000;
    if (r >> 3 & 15) return r % (6 << 20);
    return worker->is_child ? 1 << 20 : r % huge_bytes;
}

static void check_new(struct worker *worker, struct block *block, bool zero) {
    if (!block->start) fail(worker, "no memory for %zu bytes", block->size);
    if ((uintptr_t)block->start % block->alignment)
        fail(worker, "%p is not aligned to %u", (void *)block->start, block->alignment);
    size_t usable = malloc_usable_size(block->start);
    if (usable < block->size) fail(worker, "%zu of %zu bytes are usable", usable, block->size);
    if (zero) {
        uint64_t bits = 0, i = 0, step = block->size > 16384 ? 64 : 1;
        for (; i + 8 <= block->size; i += 8 * step) {
            uint64_t word;
            __builtin_memcpy(&word, block->start + i, 8);
            bits |= word;
        }
        for (i = block->size & ~UINT64_C(7); i < block->size; i++) bits |= block->start[i];
        if (bits) fail(worker, "calloc's block of %zu bytes is not zero", block->size);
    }
    take_addresses(worker, block);
    write_contents(block);
}

static __attribute__((noinline)) void do_allocate(struct worker *worker, struct block *block, uint64_t r) {
    uint64_t more = next(worker);
    size_t size = size_from(worker, r);
    bool zero = false;
    uint64_t alignment = 0; // 0: that of malloc
    enum family family = family_c;
    void *made = NULL;
    unsigned which = more & 63;
    if (which < 30) {
        made = malloc(size);
    } else if (which < 36) {
        made = calloc(1, size), zero = true;
    } else if (which < 38) {
        size_t width = 1 + (more >> 8 & 15);
        size = size / width * width, made = calloc(size / width, width), zero = true;
    } else if (which < 44) {
        made = _Znwm(size), family = family_new;
    } else if (which < 48) {
        made = _Znam(size), family = family_new_array;
    } else if (which < 50) {
        made = realloc(NULL, size);
    } else if (which == 50) {
        size_t width = 1 + (more >> 8 & 15);
        size = size / width * width, made = reallocarray(NULL, size / width, width);
    } else if (which == 51) {
        made = _ZnwmRKSt9nothrow_t(size, &_ZSt7nothrow), family = family_new;
    } else if (which == 52) {
        made = _ZnamRKSt9nothrow_t(size, &_ZSt7nothrow), family = family_new_array;
    } else {
        alignment = UINT64_C(16) << (more >> 8 & 15) % ((more >> 12 & 15) ? 4 : 13);
        if (size > 1 << 20) alignment = 4096;
        family = family_aligned;
        if (which == 53) made = memalign(alignment, size);
        else if (which == 54) made = aligned_alloc(alignment, size);
        else if (which < 58) {
            errno = 77;
            if (posix_memalign(&made, alignment, size) != 0) made = NULL;
            if (errno != 77) fail(worker, "posix_memalign changed errno");
        } else if (which == 58 && !(more >> 40 & 7)) {
            alignment = 4096, made = valloc(size);
        } else if (which == 59 && !(more >> 40 & 7)) {
            alignment = 4096, size = (size + 4095) & ~(size_t)4095, made = pvalloc(size);
        } else if (which < 62) {
            made = _ZnwmSt11align_val_t(size, alignment), family = family_new_aligned;
        } else {
            made = _ZnamSt11align_val_t(size, alignment), family = family_new_array_aligned;
        }
    }
    if (!alignment) alignment = promised_alignment(size);
    *block = (struct block){made, size, (uint32_t)alignment, (uint16_t)more, (uint8_t)family};
    check_new(worker, block, zero);
    worker->operations++;
}

static __attribute__((noinline)) void do_free(struct worker *worker, struct block *block, uint64_t r) {
    unsigned char *start = block->start;
    size_t size = block->size;
    check_kept(worker, block, size, size, "free");
    leave_addresses(block);
    bool sized = r & 1;
    errno = 1234;
    switch ((enum family)block->family) {
    case family_c:
        if ((r & 15) == 1 && free_sized_function) free_sized_function(start, size);
        else if ((r & 15) == 2 && realloc(start, 0)) fail(worker, "realloc to 0 bytes gave a block");
        else if ((r & 15) == 2) break;
        else free(start);
        break;
    case family_aligned:
        if ((r & 15) == 1 && free_aligned_sized_function) free_aligned_sized_function(start, block->alignment, size);
        else free(start);
        break;
    case family_new: sized ? _ZdlPvm(start, size) : _ZdlPv(start); break;
    case family_new_array: sized ? _ZdaPvm(start, size) : _ZdaPv(start); break;
    case family_new_aligned:
        sized ? _ZdlPvmSt11align_val_t(start, size, block->alignment) : _ZdlPvSt11align_val_t(start, block->alignment);
        break;
    case family_new_array_aligned:
        sized ? _ZdaPvmSt11align_val_t(start, size, block->alignment) : _ZdaPvSt11align_val_t(start, block->alignment);
        break;
    }
    if (errno != 1234) fail(worker, "a free of %zu bytes changed errno to %d", size, errno);
    // Reads only blocks in slots: other blocks leave the quarantine earlier, perhaps at once.
    if (reads_fill && size >= 16 && size <= 32768 && block->alignment <= 4096) {
        uint64_t head, tail, wanted = UINT64_C(0x5555555555555555);
        __builtin_memcpy(&head, start + 8, 8), __builtin_memcpy(&tail, start + size - 8, 8);
        if ((size >= 24 && head != wanted) || tail != wanted)
            fail(worker, "a dead block of %zu bytes at %p holds %llx %llx", size, (void *)start,
                 (unsigned long long)head, (unsigned long long)tail);
    }
    block->start = NULL;
    worker->operations++;
}

static __attribute__((noinline)) void do_resize(struct worker *worker, struct block *block, uint64_t r) {
    if (block->family != family_c && block->family != family_aligned) return do_free(worker, block, r);
    size_t old = block->size, size = size_from(worker, next(worker));
    // Grow or shrink by about as much as containers do.
    if (r & 3) size = old + (r >> 8) % (old / 2 + 32) - (r & 4 ? old / 3 : 0);
    if (!size) size = 1;
    check_kept(worker, block, old, old, "before realloc");
    leave_addresses(block);
    unsigned char *moved = r & 8 ? realloc(block->start, size) : reallocarray(block->start, 1, size);
    if (!moved) fail(worker, "no memory for %zu instead of %zu bytes", size, old);
    uint32_t promised = (uint32_t)promised_alignment(size);
    if (moved != block->start) block->alignment = promised, block->family = family_c;
    else if (block->alignment < promised) block->alignment = promised;
    block->start = moved;
    block->size = size;
    check_kept(worker, block, old < size ? old : size, old, "realloc");
    block->salt = (uint16_t)r;
    check_new(worker, block, false);
    worker->operations++;
}

// Makes calls that must fail, and calls free with NULL.
static void do_fail(struct worker *worker, struct block *block, uint64_t r) {
    void *made = &made;
    int expected = ENOMEM;
    errno = 0;
    // Before it falls back to libc, the runtime empties the quarantine. With `fill`, calls that lead to this fallback
    // are left out, because other threads' freed blocks would leave the quarantine.
    switch (r % (reads_fill ? 6 : 9)) {
    case 0: made = malloc((size_t)PTRDIFF_MAX + 1 + r); break;
    case 1: made = calloc(UINT64_C(1) << 33, UINT64_C(1) << 33); break;
    case 2: made = realloc(block->start, SIZE_MAX - 100); break;
    case 3: made = reallocarray(block->start, SIZE_MAX / 2, 3); break;
    case 4: made = memalign(64, SIZE_MAX - 200); break;
    case 5: {
        void *place = &made;
        int result = posix_memalign(&place, 24, 10);
        if (result != EINVAL || place != &made || errno)
            fail(worker, "posix_memalign with a bad alignment: %d", result);
        made = NULL, expected = 0;
        break;
    }
    case 6: made = _ZnwmRKSt9nothrow_t(PTRDIFF_MAX, &_ZSt7nothrow), expected = errno; break;
    case 7: made = malloc(PTRDIFF_MAX); break;
    case 8: free(NULL), _ZdlPv(NULL), made = NULL, expected = 0; break;
    }
    if (made || errno != expected) fail(worker, "what cannot be had (%d) gave %p, errno %d", (int)(r % 9), made, errno);
    worker->operations++;
}

// Frees blocks that libc's functions have allocated.
static void do_libc(struct worker *worker, uint64_t r) {
    char text[200], *copy, *line = NULL;
    size_t capacity = 0, length = r % 190;
    memset(text, 'a' + (int)(r >> 8 & 15), length);
    text[length] = 0;
    copy = strdup(text);
    if (!copy || strcmp(copy, text)) fail(worker, "strdup");
    free(copy);
    if (asprintf(&copy, "%s-%llu", text, (unsigned long long)r) < 0 || strncmp(copy, text, length))
        fail(worker, "asprintf");
    FILE *stream = fmemopen(copy, strlen(copy) + 1, "r");
    if (!stream || getline(&line, &capacity, stream) < 0 || strncmp(line, text, length)) fail(worker, "getline");
    fclose(stream);
    free(line);
    free(copy);
    worker->operations += 6;
}

static void do_exchange(struct worker *worker, struct block *block, uint64_t r) {
    if (worker->is_child || pthread_mutex_trylock(&shared_lock) != 0) return;
    struct block other = shared[r % SHARED];
    shared[r % SHARED] = *block;
    *block = other;
    pthread_mutex_unlock(&shared_lock);
}

static void work(struct worker *worker, uint64_t until);

static void do_fork(struct worker *worker) {
    pid_t child = fork();
    if (child < 0) fail(worker, "fork: %s", strerror(errno));
    if (child == 0) {
        worker->is_child = true;
        alarm(120);
        for (int i = 0; i < SLOTS; i++)
            if (worker->blocks[i].start)
                check_kept(worker, &worker->blocks[i], worker->blocks[i].size, worker->blocks[i].size, "after fork");
        work(worker, worker->operations + CHILD_OPERATIONS);
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail(worker, "waitpid: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail(worker, "the child ended with %#x", status);
}

static void step(struct worker *worker) {
    uint64_t r = next(worker);
    struct block *block = &worker->blocks[(r >> 48) % worker->window];
    if (!block->start) return do_allocate(worker, block, r);
    unsigned what = r & 255;
    if (what < 190) return do_free(worker, block, r >> 8);
    if (what < 240) return do_resize(worker, block, r >> 8);
    if (what < 248) return do_exchange(worker, block, r >> 8);
    if (what < 252) return check_kept(worker, block, block->size, block->size, "meanwhile");
    unsigned rare = r >> 8 & 4095;
    if (rare < 300) return do_libc(worker, r >> 20);
    if (rare < 330) return do_fail(worker, block, r >> 20);
    if (rare < 332) malloc_trim(0), worker->operations++;
    // Change the number of blocks in use from time to time: from a few to all slots.
    if (rare < 380) worker->window = 32 + (r >> 20) % (rare < 350 ? SLOTS - 31 : 200);
    if (rare >= 380 && rare < 384)
        for (int i = 0; i < SLOTS; i++)
            if (worker->blocks[i].start) do_free(worker, &worker->blocks[i], r >> 12);
    if (rare == 384 && forks && !worker->is_child) do_fork(worker);
}

// Runs the operations in deeper frames, so that their stacks differ.
static __attribute__((noinline)) void step_deeper(struct worker *worker, unsigned depth) {
    volatile char room[40];
    room[depth % 40] = 1;
    if (depth) step_deeper(worker, depth - 1);
    else step(worker);
    (void)room[depth % 40];
}

static void work(struct worker *worker, uint64_t until) {
    while (worker->operations < until) {
        for (int i = 0; i < 60; i++) step(worker);
        step_deeper(worker, (unsigned)(next(worker) >> 32) % 8);
    }
}

static void *run(void *context) {
    struct worker *worker = context;
    work(worker, worker->operations + worker->wanted);
    return NULL;
}

static uint64_t number_from(const char *text) { return strtoull(text, NULL, 10); }

int main(int count, char **words) {
    if (count < 4) return 64;
    uint64_t operations = number_from(words[1]), round_operations = 500000, done = 0;
    bool checks = true;
    unsigned threads = (unsigned)number_from(words[2]);
    seed = number_from(words[3]);
    for (int i = 4; i < count; i++) {
        if (!strcmp(words[i], "fill")) reads_fill = true;
        else if (!strcmp(words[i], "nofork")) forks = false;
        else if (!strcmp(words[i], "unchecked")) checks = false;
        else if (!strncmp(words[i], "round=", 6)) round_operations = number_from(words[i] + 6);
        else if (!strncmp(words[i], "huge=", 5)) huge_bytes = number_from(words[i] + 5) << 20;
        else return 64;
    }
    if (!threads || threads > THREADS_MOST || !round_operations || !huge_bytes) return 64;
    taken = mmap(NULL, UINT64_C(1) << 43, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (taken == MAP_FAILED) return perror("model: no address space for the map"), 1;
    free_sized_function = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    free_aligned_sized_function = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    const char *(*broken)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "zg_invariants_check");
    struct timespec started, now;
    clock_gettime(CLOCK_MONOTONIC, &started);
    uint64_t checked = 0;
    for (uint64_t round = 0; done < operations; round++) {
        uint64_t before = done;
        for (unsigned i = 0; i < threads; i++) {
            struct worker *worker = &workers[i];
            worker->number = i, worker->round = round;
            worker->random =
                (seed * UINT64_C(0x9e3779b97f4a7c15) ^ (round << 8 | i)) * UINT64_C(0xd6e8feb86659fd93) | 1;
            for (int j = 0; j < 4; j++) next(worker);
            worker->window = 64 + (unsigned)(next(worker) % (SLOTS - 63));
            uint64_t left = (operations - before) / threads + 1;
            worker->wanted = left < round_operations ? left : round_operations;
            done -= worker->operations;
            if (pthread_create(&worker->thread, NULL, run, worker) != 0) fail(worker, "no thread");
        }
        for (unsigned i = 0; i < threads; i++) {
            pthread_join(workers[i].thread, NULL);
            done += workers[i].operations;
        }
        // Rotate the blocks among the threads, so that one thread frees what another has allocated.
        for (int i = 0; i < SLOTS && threads > 1; i++) {
            struct block first = workers[0].blocks[i];
            for (unsigned j = 0; j + 1 < threads; j++) workers[j].blocks[i] = workers[j + 1].blocks[i];
            workers[threads - 1].blocks[i] = first;
        }
        if (broken && checks) {
            const char *what = broken();
            if (what) fail(&workers[0], "broken: %s", what);
            checked++;
        }
    }
    struct worker *last = &workers[0];
    for (unsigned i = 0; i < threads; i++)
        for (int j = 0; j < SLOTS; j++)
            if (workers[i].blocks[j].start) do_free(last, &workers[i].blocks[j], 0);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].start) do_free(last, &shared[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - started.tv_sec) + (double)(now.tv_nsec - started.tv_nsec) / 1e9;
    printf("operations %llu seconds %.1f invariants %llu\n", (unsigned long long)done, seconds,
           (unsigned long long)checked);
    return 0;
}
