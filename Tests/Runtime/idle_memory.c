// Blocks reuse idle memory: free slots serve blocks of other sizes, pages of a freed large block serve the next one.
// slow
// qemu-user: memory usage includes the emulator's own, and it does not move pages
// preload
// timeout: 300

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "life.h"

#define MIB ((size_t)1 << 20)
enum { PAGE = 4096 };

static bool is_all(const unsigned char *block, size_t bytes, unsigned char byte) {
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != byte) return false;
    return true;
}

// MARK: blocks of one size after the other

enum { PHASE_MIB = 32 };
static const size_t sizes[] = {24, 48, 100, 208, 400, 720, 1504, 3000, 5200, 12000, 30000};
enum { SIZES = sizeof sizes / sizeof *sizes };

// Every third block comes from calloc and must be zero. Frees all blocks except every `kept`th; all of them if `kept`
// is 0.
static bool pass_phase(size_t size, size_t kept, unsigned char **survivors, size_t *survivor_count) {
    size_t count = PHASE_MIB * MIB / size;
    unsigned char **blocks =
        mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 3 ? malloc(size) : calloc(1, size);
        good = good && blocks[i] && (i % 3 || is_all(blocks[i], size, 0));
        if (blocks[i]) memset(blocks[i], (int)size, size);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept && i % kept == 0) survivors[(*survivor_count)++] = blocks[i];
        else free(blocks[i]);
    }
    munmap(blocks, count * sizeof *blocks);
    return good;
}

// Goes through all sizes twice. The first phase has the smallest blocks; its peak is nearly the peak of the whole run.
static int change_sizes(void) {
    size_t first = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SIZES; i++) {
            if (!pass_phase(sizes[i], 0, NULL, NULL)) return 1;
            if (!first) first = life_status("VmHWM");
        }
    size_t peak = life_status("VmHWM");
    fprintf(stderr, "peak %zu MiB, of the first phase %zu MiB\n", peak / MIB, first / MIB);
    return peak <= first + PHASE_MIB * MIB ? 0 : 2;
}

// Blocks that stay in use between freed ones keep their contents.
static int keep_some(void) {
    static unsigned char *survivors[PHASE_MIB * MIB / 24];
    for (int i = 0; i < SIZES; i++) {
        size_t count = 0, next = 0;
        if (!pass_phase(sizes[i], 500, survivors, &count)) return 1;
        if (!pass_phase(sizes[(i + 3) % SIZES], 0, NULL, NULL)) return 2;
        if (!pass_phase(sizes[i], 0, NULL, NULL)) return 3;
        for (; next < count; next++) {
            if (!is_all(survivors[next], sizes[i], (unsigned char)sizes[i])) return 4;
            free(survivors[next]);
        }
    }
    return 0;
}

static void *run_phases(void *failures) {
    for (int i = 0; i < SIZES; i++)
        if (!pass_phase(sizes[i], 0, NULL, NULL)) __atomic_fetch_add((int *)failures, 1, __ATOMIC_RELAXED);
    return NULL;
}

static int change_sizes_in_threads(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int failures = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run_phases, &failures)) return 2;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    size_t peak = life_status("VmHWM");
    fprintf(stderr, "peak %zu MiB\n", peak / MIB);
    // Four phases run at once. The allowed memory includes the records of the smallest blocks, and blocks that the
    // other threads have just freed.
    return failures ? 1 : peak <= 4 * PHASE_MIB * MIB * 5 / 2 ? 0 : 3;
}

// MARK: blocks that are hardly used

// A block with one written page uses memory for that page only, also after it is freed. Later calloc blocks are zero
// everywhere.
static int touch_little(void) {
    static const size_t little_sizes[] = {16000, 30000, 60000, 120000, 500000, 1000000};
    enum { BLOCKS = 2000 };
    static unsigned char *blocks[BLOCKS];
    size_t before = life_status("VmHWM");
    for (unsigned i = 0; i < sizeof little_sizes / sizeof *little_sizes; i++)
        for (int round = 0; round < 3; round++) {
            size_t size = little_sizes[i], page = (size_t)round * 2 % (size / PAGE) * PAGE;
            for (int j = 0; j < BLOCKS; j++) {
                blocks[j] = round == 1 ? calloc(1, size) : malloc(size);
                if (!blocks[j]) return 1;
                memset(blocks[j] + page, 7, PAGE / 2);
            }
            for (int j = 0; j < BLOCKS; j++) free(blocks[j]);
        }
    size_t peak = life_status("VmHWM");
    fprintf(stderr, "peak %zu MiB more\n", (peak - before) / MIB);
    if (peak - before > 100 * MIB) return 2;
    for (unsigned i = 0; i < sizeof little_sizes / sizeof *little_sizes; i++)
        for (int j = 0; j < 50; j++) {
            unsigned char *block = calloc(1, little_sizes[i]);
            if (!block || !is_all(block, little_sizes[i], 0)) return 3;
            memset(block, 1, little_sizes[i]);
            free(block);
        }
    return 0;
}

// MARK: large blocks

static bool is_readable(const void *address) {
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)address, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static const size_t large_sizes[] = {MIB, 1500000, 3 * MIB + 5, 7 * MIB, 20 * MIB};
enum { LARGE_SIZES = sizeof large_sizes / sizeof *large_sizes };

// Linux moves pages with MREMAP_DONTUNMAP since 5.7.
static bool can_move(void) {
    char *area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moved = mremap(area, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */, area + PAGE);
    munmap(area, 2 * PAGE);
    return moved != MAP_FAILED;
}

// A block of the same size as the one just freed takes over its pages, so few pages fault. The freed block is
// unreadable nevertheless.
static int repeat_large(void) {
    enum { ROUNDS = 200 };
    for (int i = 0; i < LARGE_SIZES; i++) {
        size_t size = large_sizes[i];
        long before = 0;
        unsigned char *last = NULL;
        for (int round = 0; round < ROUNDS; round++) {
            bool zeroed = round % 50 == 49;
            unsigned char *block = zeroed ? calloc(1, size) : malloc(size);
            if (!block || block == last) return 1;
            if (zeroed && !is_all(block, size, 0)) return 2;
            if (last && (is_readable(last) || is_readable(last + size - 1))) return 3;
            memset(block, 1, size);
            free(block);
            last = block;
            if (round == 0) before = faults();
        }
        if (can_move() && faults() - before > (long)(ROUNDS / 10 * (size / PAGE))) {
            fprintf(stderr, "%zu bytes: %ld faults\n", size, faults() - before);
            return 4;
        }
    }
    return 0;
}

// Blocks that all differ in size cause few page faults.
static int mix_large(void) {
    enum { ROUNDS = 600 };
    unsigned seed = 1;
    size_t pages = 0;
    long before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245 + 12345;
        size_t size = MIB + (seed >> 4) % (3 * MIB);
        unsigned char *block = malloc(size);
        if (!block) return 1;
        memset(block, 1, size);
        free(block);
        if (round == ROUNDS / 6) before = faults();
        if (round > ROUNDS / 6) pages += size / PAGE;
    }
    fprintf(stderr, "%zu pages with %ld faults\n", pages, faults() - before);
    return can_move() && (size_t)(faults() - before) > pages / 20 ? 2 : 0;
}

// Each large block is larger than the previous one: peak memory is that of one block.
static int rise_large(void) {
    size_t before = life_status("VmHWM"), last = 0;
    for (size_t size = 5 * MIB; size < 32 * MIB; size += size / 2) {
        unsigned char *block = malloc(size);
        if (!block) return 1;
        memset(block, 1, size);
        free(block);
        last = size;
    }
    size_t grown = life_status("VmHWM") - before;
    fprintf(stderr, "%zu KiB for blocks of up to %zu KiB\n", grown / 1024, last / 1024);
    return grown < last + 5 * MIB ? 0 : 2;
}

// Blocks of alternating sizes keep their pages: no page is given back and then faulted in again each time.
static int take_turns(void) {
    enum { ROUNDS = 200 };
    size_t pages = 0;
    long before = faults();
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = round % 2 ? 4 * MIB : 9 * MIB;
        unsigned char *block = malloc(size);
        if (!block) return 1;
        memset(block, 1, size);
        free(block);
        pages += size / PAGE;
    }
    fprintf(stderr, "%zu pages with %ld faults\n", pages, faults() - before);
    return can_move() && (size_t)(faults() - before) > pages / 8 ? 2 : 0;
}

// A block that grows step by step takes its pages along when it moves: only new pages fault.
static int grow_large(void) {
    enum { ROUNDS = 8, MOST = 24 };
    for (int round = 0; round < ROUNDS; round++) {
        long before = faults();
        size_t size = MIB, steps = 0;
        unsigned char *block = malloc(size);
        memset(block, 1, size);
        for (; size < MOST * MIB; steps++) {
            size_t more = size + (round % 2 ? size / 4 : MIB / 2) + 77;
            block = realloc(block, more);
            if (!block) return 1;
            memset(block + size, 1, more - size);
            size = more;
        }
        if (!is_all(block, size, 1)) return 2;
        // Shrink the block, and grow it again.
        block = realloc(block, size / 3);
        if (!is_all(block, size / 3, 1)) return 3;
        block = realloc(block, size);
        if (!is_all(block, size / 3, 1)) return 4;
        free(block);
        if (can_move() && faults() - before > (long)(2 * size / PAGE)) {
            fprintf(stderr, "%zu bytes in %zu steps: %ld faults\n", size, steps, faults() - before);
            return 5;
        }
    }
    return 0;
}

// Protections, advice and mappings that a program sets on a block's pages do not affect later blocks there.
static int change_pages(void) {
    for (int kind = 0; kind < 7; kind++)
        for (int way = 0; way < 4; way++) {
            bool whole = way & 1;
            size_t size = 2 * MIB;
            unsigned char *block = malloc(way < 2 ? size : size / 2);
            memset(block, 1, way < 2 ? size : size / 2);
            if (way >= 2) block = realloc(block, size);
            memset(block, 1, size);
            unsigned char *from = block + (whole ? 0 : MIB / 2);
            from += (PAGE - (uintptr_t)from % PAGE) % PAGE;
            size_t bytes = whole ? size - (size_t)(from - block) : MIB;
            bytes -= bytes % PAGE;
            switch (kind) {
            case 0: mprotect(from, bytes, PROT_READ); break;
            case 1: mprotect(from, bytes, PROT_NONE); break;
            case 2: madvise(from, bytes, MADV_DONTFORK); break;
            case 3: madvise(from, bytes, MADV_WIPEONFORK); break;
            case 4: munmap(from, bytes); break;
            case 5: mmap(from, bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
            case 6: mmap(from, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
            }
            free(block);
            for (int i = 0; i < 3; i++) {
                unsigned char *next = malloc(size);
                memset(next, 2, size);
                pid_t child = fork();
                if (child == 0) {
                    if (!is_all(next, size, 2)) _exit(1);
                    memset(next, 3, size);
                    _exit(0);
                }
                int status = life_wait(child);
                if (status) {
                    fprintf(stderr, "kind %d way %d: the child ended with %d\n", kind, way, status);
                    return 1;
                }
                if (!is_all(next, size, 2)) {
                    fprintf(stderr, "kind %d way %d: the child wrote to its parent's block\n", kind, way);
                    return 2;
                }
                free(next);
            }
        }
    return 0;
}

// MARK: the modes

static const char *options;
static void set_options(void) { setenv("ZGUARD_OPTIONS", options, 1); }

static void check_mode(const char *mode, const char *with) {
    char text[160];
    options = with;
    snprintf(text, sizeof text, "%s with '%s'", mode, with);
    CHECK_EQUAL(life_run_self(mode, set_options), 0, text);
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {{"change_sizes", change_sizes},
             {"keep_some", keep_some},
             {"change_sizes_in_threads", change_sizes_in_threads},
             {"touch_little", touch_little},
             {"repeat_large", repeat_large},
             {"mix_large", mix_large},
             {"rise_large", rise_large},
             {"take_turns", take_turns},
             {"grow_large", grow_large},
             {"change_pages", change_pages}};

int main(int argc, char **argv) {
    for (unsigned i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0) return modes[i].run();
    static const char *const ways[] = {"", "pressure=0", "protect=mprotect", "on_finding=continue", "retired_bytes=0"};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        check_mode("change_sizes", ways[i]);
        check_mode("keep_some", ways[i]);
    }
    // Without windows, because the resident size would count a page once for each block that a window maps to it.
    check_mode("change_sizes_in_threads", "isolated_windows=off");
    check_mode("touch_little", "");
    check_mode("repeat_large", "");
    check_mode("repeat_large", "retired_bytes=64M");
    check_mode("mix_large", "");
    check_mode("rise_large", "");
    check_mode("take_turns", "");
    check_mode("grow_large", "");
    check_mode("grow_large", "retired_bytes=0");
    check_mode("change_pages", "");
    printf("checks %d failures %d\n", check_count, check_failures);
    return check_failures != 0;
}
