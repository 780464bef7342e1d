// Random sequences of all allocation functions from two threads, against a model of what every block holds.
// preload
// control

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { BLOCKS = 700, SECONDS = 4, SHARED = 64 };

struct block {
    unsigned char *start;
    size_t size;
    unsigned char salt;
};

static uint64_t wrong, operations;

static void write_all(struct block *block) {
    for (size_t i = 0; i < block->size; i += block->size > 20000 && i > 100 && i + 100 < block->size ? 509 : 1)
        block->start[i] = (unsigned char)(i * 7 + block->salt);
}

static bool holds(const struct block *block, size_t count, size_t written) {
    for (size_t i = 0; i < count; i += written > 20000 && i > 100 && i + 100 < written ? 509 : 1)
        if (block->start[i] != (unsigned char)(i * 7 + block->salt)) return false;
    return true;
}

static size_t random_size(uint64_t r) {
    switch (r % 16) {
    case 0: return (r >> 8) % 3000000;
    case 1: return (r >> 8) % 100000;
    case 2: case 3: return (r >> 8) % 5000;
    case 4: return 0;
    default: return (r >> 8) % 300;
    }
}

// Blocks that one thread makes and the other frees.
static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void exchange(struct block *block, uint64_t r) {
    pthread_mutex_lock(&shared_lock);
    struct block other = shared[r % SHARED];
    shared[r % SHARED] = *block;
    *block = other;
    pthread_mutex_unlock(&shared_lock);
}

static void allocate(struct block *block, uint64_t r, uint64_t more) {
    size_t size = random_size(r), alignment = (size_t)16 << more % 10;
    void *made = NULL;
    bool zero = false;
    switch (more >> 16 & 7) {
    case 0: made = calloc(1, size); zero = true; break;
    case 1: made = calloc(size / 8 + 1, 8); zero = true; break;
    case 2: made = memalign(alignment, size); break;
    case 3: made = aligned_alloc(alignment, size); break;
    case 4: if (posix_memalign(&made, alignment, size) != 0) made = NULL; break;
    case 5: made = realloc(NULL, size); break;
    case 6: made = more >> 20 & 1 ? valloc(size) : reallocarray(NULL, size / 3, 3), size = more >> 20 & 1 ? size : size / 3 * 3; break;
    default: made = malloc(size); break;
    }
    *block = (struct block){made, size, (unsigned char)more};
    bool right = made && (uint64_t)made % 16 == 0 && malloc_usable_size(made) >= size;
    if ((more >> 16 & 7) >= 2 && (more >> 16 & 7) <= 4) right = right && (uint64_t)made % alignment == 0;
    for (size_t i = 0; right && zero && i < size; i += size > 50000 ? 61 : 1) right = !block->start[i];
    if (!right) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    if (made) write_all(block);
}

static void *run(void *seed) {
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15 + 1, bad = 0;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 2000; i++) {
            uint64_t r = check_random(&state), more = check_random(&state);
            struct block *block = &blocks[r >> 40 & 511];
            if (!block->start) {
                allocate(block, r, more);
                continue;
            }
            bad += !holds(block, block->size, block->size);
            switch (more >> 32 & 7) {
            case 0: case 1: case 2: {
                size_t old = block->size, size = random_size(more >> 3);
                if (!size) size = 1;
                unsigned char *moved = more >> 50 & 1 ? realloc(block->start, size) : reallocarray(block->start, 1, size);
                if (!moved) {
                    bad++;
                    break;
                }
                block->start = moved;
                block->size = size;
                bad += !holds(block, old < size ? old : size, old);
                write_all(block);
                break;
            }
            case 3: exchange(block, more); break;
            case 4:
                if (realloc(block->start, 0)) bad++;
                *block = (struct block){0};
                break;
            default:
                errno = 5;
                free(block->start);
                bad += errno != 5;
                *block = (struct block){0};
            }
            if (r % 20011 == 0) malloc_trim(0);
        }
        __atomic_fetch_add(&operations, 2000, __ATOMIC_RELAXED);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < SECONDS);
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].start) bad += !holds(&blocks[i], blocks[i].size, blocks[i].size);
        free(blocks[i].start);
    }
    free(blocks);
    __atomic_fetch_add(&wrong, bad, __ATOMIC_RELAXED);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (uint64_t i = 0; i < 2; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, run, (void *)(i + 1)), 0, "a thread starts");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++) free(shared[i].start);
    CHECK_EQUAL(wrong, 0, "every block held what the model says");
    CHECK(operations > 20000, "many operations");
    return check_end();
}
