// Runs the heap's internal functions on several threads under ThreadSanitizer: allocation, free, realloc, trim, and the
// start and end of threads. Blocks are allocated by one thread and freed by another.
// usage: threads OPERATIONS SEED
//
// These do not work under TSan: signal handlers (TSan's own handler runs first), fork, the interposed functions (TSan
// replaces malloc, pthread_create and sigaction itself), and stack captures (they read words of callers' frames that
// are in use, by design; stack_depth=0 disables them). The quarantine is verified only after the threads have ended:
// beside threads that evict and reuse blocks, verification reads changing contents by design. (A difference counts only
// if the block's record says afterwards that the block stayed freed.)

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks/lookup.h"
#include "entry/entry.h"
#include "findings/finding.h"
#include "heap/quarantine.h"
#include "process/ready.h"
#include "process/runtime.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "threads/thread.h"

// The runtime replaces parts of queues by new mappings with its own system calls, which TSan does not see: TSan takes
// the new memory for the old.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:release_spares\n"; }

enum { THREADS = 4, LIVES = 6, SLOTS = 200, SHARED = 32 };

struct worker {
    uint64_t random, operations;
};

static void *shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t next(struct worker *worker) {
    uint64_t x = worker->random;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    return (worker->random = x) * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t size_from(uint64_t r) {
    return r % 100 < 90 ? r >> 8 & 511 : r % 100 < 98 ? (r >> 8) % 40000 : (r >> 8) % 1500000;
}

static __attribute__((noinline)) void *allocate(uint64_t size, uint64_t alignment, bool zero) {
    void *block = zg_entry_allocate(size, alignment, alignment > 16 ? zg_family_aligned : zg_family_malloc, zero,
                                    ZG_ARCH_FRAME());
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}
static __attribute__((noinline)) void release(void *block) {
    zg_entry_free(block, zg_deallocator_free, ZG_ANY_SIZE, ZG_ARCH_FRAME());
    __asm__ volatile("" ::: "memory");
}
static __attribute__((noinline)) void *resize(void *block, uint64_t size) {
    block = zg_entry_reallocate(block, size, ZG_ARCH_FRAME());
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}
static __attribute__((noinline)) void trim(bool quarantine) {
    zg_entry_trim(quarantine, ZG_ARCH_FRAME());
    __asm__ volatile("" ::: "memory");
}

static void *run(void *context) {
    struct worker *worker = context;
    void *blocks[SLOTS] = {0};
    for (uint64_t i = 0; i < worker->operations; i++) {
        uint64_t r = next(worker), more = next(worker);
        void **block = &blocks[r >> 48 & 127];
        if (!*block) {
            *block = allocate(size_from(more), more >> 60 ? 16 : UINT64_C(64) << (more >> 56 & 7), more >> 40 & 1);
            if (!*block) abort();
            continue;
        }
        struct zg_block_view view;
        switch (r & 31) {
        case 0:
        case 1:
        case 2:
        case 3: *block = resize(*block, size_from(more) + 1); break;
        case 4:
        case 5:
        case 6: {
            pthread_mutex_lock(&shared_lock);
            void *other = shared[more % SHARED];
            shared[more % SHARED] = *block;
            *block = other;
            pthread_mutex_unlock(&shared_lock);
            break;
        }
        case 7: // look up an address at any time, as a fault handler does
            if (zg_lookup_block((uint64_t)*block + (more & 0xfffff), &view) && view.size > UINT64_C(1) << 40) abort();
            break;
        case 8:
            if (more % 500 == 0) trim(more >> 20 & 1);
            break;
        default: release(*block); *block = NULL;
        }
    }
    for (int i = 0; i < SLOTS; i++) release(blocks[i]);
    return NULL;
}

int main(int count, char **words) {
    if (count != 3) return 64;
    uint64_t operations = strtoull(words[1], NULL, 10), seed = strtoull(words[2], NULL, 10);
    zg_runtime_start();
    if (!zg_ready()) return 1;
    for (int life = 0; life < LIVES; life++) {
        pthread_t threads[THREADS];
        struct worker workers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            workers[i] =
                (struct worker){(seed * 1000003 + (uint64_t)(life * THREADS + i)) * UINT64_C(0x9e3779b97f4a7c15) | 1,
                                operations / THREADS / LIVES};
            if (pthread_create(&threads[i], NULL, run, &workers[i]) != 0) return 1;
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        zg_quarantine_verify_all("test");
    }
    printf("findings %llu\n", (unsigned long long)zg_stats_get(zg_counter_findings));
    return zg_stats_get(zg_counter_findings) != 0;
}
