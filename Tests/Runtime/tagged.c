// Profile mte: tags of memory, findings by tag mismatch at the faulting instruction, and the block that they name.
// processor: aarch64
// preload
// options: profile=mte:report_path=findings-%p.jsonl
// warning: zguard
// timeout: 120

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tagged.h"

enum { LARGEST_TAGGED = 32768, PAGE = 4096 };

static bool has_tag(const void *block, uint64_t bytes, uint32_t tag) {
    for (uint64_t i = 0; i < bytes; i += GRANULE)
        if (tag_at(address_of(block) + i) != tag) return false;
    return true;
}

// --- tags ------------------------------------------------------------------------------------------------------------

static void check_block(const char *block, uint64_t size) {
    CHECK(tag_of(block) != 0, "a small block has a tag");
    CHECK(has_tag(block, size, tag_of(block)), "and so has its memory");
    uint32_t behind = tag_at((address_of(block) + size + GRANULE - 1) & ~UINT64_C(15));
    CHECK(behind != tag_of(block), "what is behind it has another one");
    if (size && address_of(block) % PAGE)
        CHECK(tag_at(address_of(block) - GRANULE) != tag_of(block), "and what is in front of it");
    CHECK_EQUAL(malloc_usable_size((void *)block), size, "its size");
}

static void check_sizes(void) {
    enum { EACH = 9 };
    for (uint64_t size = 0; size <= LARGEST_TAGGED; size += size < 200 ? 1 : size / 16 + 3) {
        char *blocks[EACH];
        for (int i = 0; i < EACH; i++) {
            blocks[i] = i % 2 ? malloc(size) : calloc(1, size);
            for (uint64_t j = 0; i % 2 == 0 && j < size; j++)
                if (blocks[i][j]) CHECK(0, "calloc's memory is zero");
            memset(blocks[i], i + 1, size);
        }
        for (int i = 0; i < EACH; i++) check_block(blocks[i], size);
        for (int i = 0; i < EACH; i++) {
            CHECK(!size || (blocks[i][0] == i + 1 && blocks[i][size - 1] == i + 1), "contents stay");
            free(blocks[i]);
            CHECK(has_tag(blocks[i], size, 0), "a dead block's memory has the tag 0");
        }
    }
    char *large = malloc(LARGEST_TAGGED * 4);
    CHECK_EQUAL(tag_of(large), 0, "a large block has no tag");
    memset(large, 1, LARGEST_TAGGED * 4);
    free(large);
}

static void check_alignments(void) {
    for (uint64_t alignment = 16; alignment <= 8 * PAGE; alignment *= 2)
        for (uint64_t size = 1; size < 20000; size = size * 3 + 5) {
            char *block = aligned_alloc(alignment, size);
            CHECK_EQUAL(address_of(block) % alignment, 0, "aligned");
            CHECK(!tag_of(block) == (alignment >= PAGE), "blocks of whole pages have no tag, others do");
            if (alignment < PAGE) check_block(block, size);
            memset(block, 1, size);
            if (alignment >= PAGE && size >= PAGE) {
                CHECK_EQUAL(mprotect(block, PAGE, PROT_READ), 0, "may be protected");
                CHECK_EQUAL(mprotect(block, PAGE, PROT_READ | PROT_WRITE), 0, "and opened");
                CHECK(block[PAGE - 1] == 1, "and has what was in it");
            }
            free(block);
        }
}

static void check_realloc(void) {
    char *block = NULL;
    uint64_t size = 0;
    unsigned random = 1;
    for (int i = 0; i < 4000; i++) {
        uint64_t wanted = 1 + (random = random * 1664525 + 1013904223) % (i % 10 ? 300 : 40000);
        char *moved = realloc(block, wanted);
        uint64_t kept = wanted < size ? wanted : size;
        for (uint64_t j = 0; j < kept; j++)
            if (moved[j] != (char)(j * 7)) CHECK(0, "contents are kept");
        if (wanted <= LARGEST_TAGGED) check_block(moved, wanted);
        if (block && address_of(moved) != address_of(block) && size <= LARGEST_TAGGED)
            CHECK(tag_at(address_of(block)) != tag_of(block), "the old block's pointer leads nowhere");
        for (uint64_t j = 0; j < wanted; j++) moved[j] = (char)(j * 7);
        block = moved, size = wanted;
    }
    free(block);
}

// --- threads and forks -----------------------------------------------------------------------------------------------

static void *churn(void *seed) {
    enum { KEPT = 100 };
    char *kept[KEPT] = {0};
    unsigned random = (unsigned)(uint64_t)seed, sizes[KEPT] = {0};
    for (int i = 0; i < 20000; i++) {
        unsigned at = (random = random * 1664525 + 1013904223) / 65536 % KEPT;
        if (kept[at]) {
            if (kept[at][0] != (char)at || kept[at][sizes[at] - 1] != (char)at) CHECK(0, "contents are the owner's");
            if (random % 64 == 0) check_block(kept[at], sizes[at]);
            free(kept[at]);
        }
        sizes[at] = 1 + random / 256 % 500;
        kept[at] = malloc(sizes[at]);
        memset(kept[at], (int)at, sizes[at]);
    }
    for (int i = 0; i < KEPT; i++) free(kept[i]);
    return NULL;
}

static void check_threads(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void check_fork(void) {
    char *block = malloc(100);
    memset(block, 'p', 100);
    pid_t child = fork();
    if (child == 0) {
        block[99] = 'c';
        churn((void *)9);
        _exit(block[0] == 'p' && tag_at(address_of(block)) == tag_of(block) && !check_failures ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0, "a child goes on with its parent's blocks");
    CHECK(block[99] == 'p', "and has its own");
    free(block);
}

// --- findings --------------------------------------------------------------------------------------------------------

static char *block, *behind;
static volatile char sink;

static void read_freed(void) {
    free(block);
    sink = block[20];
}
static void write_freed(void) {
    free(block);
    *(volatile uint64_t *)(block + 16) = 1;
}
static void read_freed_long_ago(void) {
    char *kept[2000];
    free(block);
    for (int i = 0; i < 200000; i++) free(malloc(48));
    for (int i = 0; i < 2000; i++) kept[i] = malloc(500);
    sink = block[0] + kept[0][0];
}
static void read_behind(void) { sink = block[48]; }
static void write_behind(void) { *(volatile char *)(block + 63) = 1; }
static void write_in_front(void) { *(volatile char *)(block - 1) = 1; }
static void write_gap(void) {
    char *odd = malloc(41);
    *(volatile char *)(odd + 42) = 1;
    free(odd);
}
static void write_gap_and_resize(void) {
    char *odd = malloc(41);
    *(volatile char *)(odd + 42) = 1;
    sink = *(char *)realloc(odd, 45);
}
static void free_twice(void) {
    free(block);
    free(block);
}
static void resize_freed(void) {
    free(block);
    sink = *(char *)realloc(block, 100);
}
static void free_interior(void) { free(block + 16); }
static void write_out_freed(void) {
    free(block);
    sink = (char)write(-1, block, 10);
}
static void *use_it(void *unused) {
    sink = block[1];
    return unused;
}
static void in_a_thread(void) {
    pthread_t thread;
    free(block);
    pthread_create(&thread, NULL, use_it, NULL);
    pthread_join(thread, NULL);
}
static void use_in_handler(int unused) { sink = block[1] + (char)unused; }
static void in_a_handler(void) {
    free(block);
    signal(SIGUSR1, use_in_handler);
    raise(SIGUSR1);
}
static void by_comparing(void) {
    static char zeros[48];
    free(block);
    sink = (char)memcmp(block, zeros, sizeof zeros);
}
static void beyond_neighbour(void) { memset(block, 1, 200); }

static const struct row rows[] = {
    {read_freed, "use-after-free", "read", "exact", "quarantined", 48, 20, SIGSEGV},
    {write_freed, "use-after-free", "write", "exact", "quarantined", 48, 16, SIGSEGV},
    {read_freed_long_ago, "use-after-free", "read", "exact", "quarantined", 48, 0, SIGSEGV},
    {read_behind, "heap-overflow", "read", "exact", "live", 48, 48, SIGSEGV},
    {write_behind, "heap-overflow", "write", "exact", "live", 48, 63, SIGSEGV},
    {write_in_front, "heap-overflow", "write", "exact", "live", 48, -1, SIGSEGV},
    {write_gap, "heap-overflow", "write", "exact", "live", 41, 42, SIGABRT},
    {write_gap_and_resize, "heap-overflow", "write", "exact", "live", 41, 42, SIGABRT},
    {free_twice, "double-free", "free", "exact", "quarantined", 48, 0, SIGABRT},
    {resize_freed, "double-free", "free", "exact", "quarantined", 48, 0, SIGABRT},
    {free_interior, "invalid-free", "free", "exact", "live", 48, 16, SIGABRT},
    {write_out_freed, "use-after-free", "read", "exact", "quarantined", 48, 0, SIGABRT},
    {in_a_thread, "use-after-free", "read", "exact", "quarantined", 48, 1, SIGSEGV},
    {in_a_handler, "use-after-free", "read", "exact", "quarantined", 48, 1, SIGSEGV},
    {by_comparing, "use-after-free", "read", "exact", "quarantined", 48, 0, SIGSEGV},
    {beyond_neighbour, "heap-overflow", "write", "exact", "live", 48, 48, SIGSEGV},
};

static void prepare(void) { block = malloc(48), behind = malloc(48); }

// --- the program's own signals ---------------------------------------------------------------------------------------

static void *faulted_at;
static void note_fault(int unused, siginfo_t *info, void *context) {
    (void)unused;
    faulted_at = info->si_addr;
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
}

static void check_program_handler(void) {
    struct sigaction action = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO}, before;
    char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &before);
    char *tagged = (char *)((uint64_t)page | UINT64_C(0x0500000000000000)) + 8;
    sink = *(volatile char *)tagged;
    CHECK_EQUAL(faulted_at, page + 8, "a handler sees no tags that it has not asked for");
    sigaction(SIGSEGV, &before, NULL);
    munmap(page, PAGE);
}

int main(void) {
    if (!has_tags()) {
        CHECK_EQUAL(tag_of(malloc(10)), 0, "without tags in the processor there are none");
        return check_end();
    }
    check_sizes();
    check_alignments();
    check_realloc();
    check_threads();
    check_fork();
    check_rows(rows, sizeof rows / sizeof rows[0], prepare);
    check_program_handler();
    return check_end();
}
