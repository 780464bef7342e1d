// Tests isolated blocks: their place in their pages, how long their addresses stay inaccessible, and cost in mappings.
// qemu-user: answers otherwise whether a system call can read protected memory
// slow
// preload
// timeout: 900

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "life.h"

// Without arguments, the program runs itself once for each mode, with the mode's options. If ZG_TEST_LONG is set
// (`scripts/test --long`), it retires ten million blocks.

enum { PAGE = 4096 };

static const size_t sizes[] = {1,    7,    8,    15,   16,   17,   24,    33,    48,    64,    100,   255,
                               1000, 4095, 4096, 4097, 5000, 8192, 20000, 32767, 32768, 32769, 65536, 200000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }
static uint64_t random_number(uint64_t *state) { return work_random(state); }

// Reads through the kernel, which fails instead of faulting.
static bool is_readable(const void *address) {
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)address, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static bool is_writable(void *address) {
    char byte = 0;
    if (!is_readable(address)) return false;
    struct iovec local = {&byte, 1}, remote = {address, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 &&
           process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static bool is_dead(const char *block, size_t size) {
    for (const char *at = block; at < block + size; at = (const char *)((uint64_t)at / PAGE * PAGE + PAGE))
        if (is_readable(at)) return false;
    return !is_readable(block + size - 1);
}

// Returns the address of the guard page behind the block. In each context, one of four blocks begins at the start of
// its pages.
static const char *fence_of(const char *block, size_t size, size_t alignment) {
    size_t step = alignment > PAGE || (uint64_t)block % PAGE == 0 ? PAGE : alignment < 16 ? 16 : alignment;
    const char *fence = block + round_up(size, step);
    // malloc aligns some blocks of up to 8 bytes only to their size, rounded up to a power of two.
    bool is_small = step == 16 && (uint64_t)fence % PAGE != 0;
    return is_small ? block + round_up(size, promised_alignment(size)) : fence;
}

static bool is_isolated(const char *block, size_t size) {
    const char *fence = fence_of(block, size, 16);
    return (uint64_t)fence % PAGE == 0 && !is_readable(fence);
}

// Counts the mappings that begin in [from, to).
static int count_mappings(uint64_t from, uint64_t to) {
    int count = 0;
    char line[512];
    uint64_t start;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        count += sscanf(line, "%lx", &start) == 1 && start >= from && start < to;
    if (file) fclose(file);
    return count;
}

static long resident_pages(void) {
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2) resident = -1;
    if (file) fclose(file);
    return resident;
}

static bool is_full_of(const unsigned char *block, size_t size, unsigned char byte) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte) return false;
    return true;
}

static bool is_long(void) {
    const char *value = getenv("ZG_TEST_LONG");
    return value && *value;
}

// MARK: contents and placement

// `alignment`: 0 if malloc's.
static void check_one(unsigned char *block, size_t size, size_t alignment) {
    const char *fence = fence_of((char *)block, size, alignment ? alignment : 16);
    CHECK_EQUAL((uint64_t)block % (alignment ? alignment : promised_alignment(size)), 0, "the block is aligned");
    CHECK_EQUAL(malloc_usable_size(block), size, "the usable size is the size asked for");
    CHECK_EQUAL((uint64_t)fence % PAGE, 0, "the block's pages end where its gap does");
    CHECK(!is_readable(fence), "behind it is a page that nobody may read");
    CHECK(!is_readable((char *)((uint64_t)block / PAGE * PAGE) - 1), "and in front of its first page, too");
    CHECK(is_writable(block) && is_writable(block + size - 1), "the block itself can be used");
}

static void check_blocks(void) {
    for (int i = 0; i < SIZES; i++) {
        unsigned char *block = malloc(sizes[i]);
        check_one(block, sizes[i], 0);
        memset(block, 1, sizes[i]);
        free(block);
        CHECK(is_dead((char *)block, sizes[i]), "all of its pages are dead when it is");
        block = calloc(1, sizes[i]);
        check_one(block, sizes[i], 0);
        CHECK(is_full_of(block, sizes[i], 0), "calloc's block is zero");
        memset(block, 0xee, sizes[i]);
        free(block);
        for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
            void *aligned = NULL;
            if (i % 3 == 0) aligned = memalign(alignment, sizes[i]);
            else if (i % 3 == 1) aligned = aligned_alloc(alignment, sizes[i]);
            else if (posix_memalign(&aligned, alignment, sizes[i])) aligned = NULL;
            check_one(aligned, sizes[i], alignment);
            memset(aligned, 2, sizes[i]);
            free(aligned);
            CHECK(is_dead(aligned, sizes[i]), "an aligned block dies likewise");
        }
    }
    unsigned char *none = malloc(0);
    CHECK(none && malloc_usable_size(none) == 0, "a block of no bytes");
    free(none);
}

static void check_zeros(void) {
    // retired_bytes is small here, so that addresses are reused.
    for (int round = 0; round < 20000; round++) {
        size_t size = sizes[round % SIZES];
        unsigned char *block = calloc(1, size);
        if (!is_full_of(block, size, 0)) CHECK(false, "calloc's block is zero, at used addresses, too");
        memset(block, 0xee, size);
        free(block);
    }
    CHECK(true, "calloc's blocks");
}

static void check_resizing(void) {
    for (int from = 0; from < SIZES; from++)
        for (int to = 0; to < SIZES; to++) {
            unsigned char *block = malloc(sizes[from]), *former = block;
            memset(block, from + 1, sizes[from]);
            block = realloc(block, sizes[to]);
            size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            CHECK(is_full_of(block, kept, (unsigned char)(from + 1)), "realloc keeps the contents");
            check_one(block, sizes[to], 0);
            CHECK(block == former || is_dead((char *)former, sizes[from]), "a moved block leaves a dead one behind");
            memset(block, 0x77, sizes[to]);
            free(block);
            CHECK(is_dead((char *)block, sizes[to]), "a resized block dies like all others");
        }
    unsigned char *block = malloc(10);
    for (size_t size = 1; size < 40000; size += size / 7 + 1) {
        block = realloc(block, size);
        memset(block, (int)(size & 0xff), size);
        unsigned char *grown = realloc(block, size + 13);
        CHECK(is_full_of(grown, size, (unsigned char)(size & 0xff)), "a block that grows again and again");
        block = grown;
    }
    free(block);
}

// MARK: many retirements

// Keeps 256 blocks in use, replaces them at random, and checks their contents. Calls `check` ten times.
static void churn(uint64_t count, void (*check)(void)) {
    enum { HELD = 256 };
    static unsigned char *held[HELD];
    static size_t held_size[HELD];
    uint64_t state = 88172645463325252u;
    int wrong = 0;
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t r = random_number(&state);
        unsigned at = r % HELD;
        if (held[at]) {
            wrong += held[at][0] != (unsigned char)at || held[at][held_size[at] - 1] != (unsigned char)at;
            free(held[at]);
        }
        held_size[at] = (r >> 8) % 100 ? (r >> 20) % 500 + 1 : (r >> 20) % 32768 + 1;
        held[at] = malloc(held_size[at]);
        memset(held[at], (int)at, held_size[at]);
        if (i % (count / 10) == 0) check();
    }
    CHECK_EQUAL(wrong, 0, "no block is touched by another");
    for (int i = 0; i < HELD; i++) free(held[i]);
}

static void check_few_mappings(void) {
    int mappings = count_mappings(0, UINT64_MAX);
    CHECK(mappings < 2000, "retired blocks cost no mappings");
    if (mappings >= 2000) fprintf(stderr, "%d mappings\n", mappings);
}

static void check_churn(void) {
    char *block = malloc(100);
    CHECK(is_isolated(block, 100), "blocks are isolated");
    free(block);
    churn(is_long() ? 10000000 : 300000, check_few_mappings);
    block = malloc(100);
    CHECK(is_isolated(block, 100), "and still have them after all this");
    free(block);
    CHECK(is_dead(block, 100), "the last one dies like the first");
}

// Allocates ranges of many lengths and alignments. Some ranges cross the borders of page tables; the runtime protects
// whole page tables at once.
static void check_borders(void) {
    enum { HELD = 24, COUNT = 40000, LARGEST = 1 << 20 };
    static unsigned char *held[HELD];
    static size_t held_size[HELD];
    uint64_t state = 2463534242u;
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t r = random_number(&state);
        unsigned at = r % HELD;
        for (size_t byte = 0; byte < held_size[at]; byte += PAGE) wrong += held[at][byte] != (unsigned char)at;
        free(held[at]);
        held_size[at] = (r >> 8) % 4 ? (r >> 20) % LARGEST + 1 : (r >> 20) % PAGE + 1;
        held[at] = (r >> 12) % 3 ? malloc(held_size[at]) : memalign((size_t)8192 << (r >> 16) % 5, held_size[at]);
        for (size_t byte = 0; byte < held_size[at]; byte += PAGE) held[at][byte] = (unsigned char)at;
    }
    CHECK_EQUAL(wrong, 0, "no block is touched by another");
    for (int i = 0; i < HELD; i++) free(held[i]);
}

static int mappings_allowed;    // value of the option `mappings`
static uint64_t first_isolated; // address of the first isolated block

static void check_mappings(void) {
    // Counts the mappings in the 8 GiB that this program's isolated blocks use. The heap of all other blocks has a few
    // hundred mappings.
    int all = count_mappings(0, UINT64_MAX),
        isolated = count_mappings(first_isolated, first_isolated + ((uint64_t)8 << 30));
    CHECK(isolated < mappings_allowed + 50, "the mappings of protected pages stay within what the options allow");
    CHECK(all < mappings_allowed + 500, "and so do all");
    if (isolated >= mappings_allowed + 50)
        fprintf(stderr, "%d mappings, %d for protected pages, allowed %d\n", all, isolated, mappings_allowed);
}

// Frees blocks between thousands of live ones: each freed block costs mappings.
static void check_interleaved(void) {
    enum { LIVE = 6000 };
    static unsigned char *live[LIVE];
    mappings_allowed = atoi(getenv("ZG_TEST_MAPPINGS"));
    char *first = malloc(100);
    CHECK(is_isolated(first, 100), "blocks are isolated");
    first_isolated = (uint64_t)first;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < LIVE; i++)
            if (!live[i] || i % 2 == round % 2) {
                unsigned char *block = malloc((size_t)i % 300 + 1);
                memset(block, i & 0xff, (size_t)i % 300 + 1);
                free(live[i]);
                live[i] = block;
            }
        check_mappings();
    }
    bool intact = true;
    for (int i = 0; i < LIVE; i++) intact = intact && is_full_of(live[i], (size_t)i % 300 + 1, (unsigned char)i);
    CHECK(intact, "no block is touched by another");
    for (int i = 0; i < LIVE; i++) free(live[i]);
    check_mappings();
    churn(100000, check_mappings);
    memset(first, 1, 100);
    free(first);
    CHECK(is_dead(first, 100), "a block that was isolated is dead when it is freed, mappings or not");
}

// MARK: addresses

static uint64_t address_of_page(const void *block) { return (uint64_t)block / PAGE; }

// With retired_bytes=64m, no address is reused before so many bytes of addresses are retired; then those that were
// retired first are reused first.
static void check_addresses(void) {
    enum { MOST = 200000, RETIRED = 64 << 20 };
    static uint64_t pages[MOST];
    static uint8_t reused[MOST];
    int first_reused = -1, reuses = 0;
    long most_passed_over = 0, oldest = 0, before = resident_pages(), after;
    uint64_t lowest = UINT64_MAX;
    // Number of the last block freed at a page, plus 1; 0 if none. The index is the page's distance from `lowest`.
    static uint32_t died[1 << 22];
    for (int i = 0; i < MOST; i++) {
        char *block = malloc(100);
        memset(block, 1, 100);
        pages[i] = address_of_page(block);
        if (i == 0) lowest = pages[0] - (1 << 21);
        uint64_t distance = pages[i] - lowest;
        if (distance >= 1 << 22) {
            CHECK(false, "the addresses lie close together");
            return;
        }
        if (died[distance]) {
            // Count the freed blocks that have waited longer than this one.
            uint32_t death = died[distance] - 1;
            if (first_reused < 0) first_reused = i;
            reuses++;
            reused[death] = 1;
            while (oldest < i && reused[oldest]) oldest++;
            if ((long)death - oldest > most_passed_over) most_passed_over = (long)death - oldest;
        }
        free(block);
        died[distance] = (uint32_t)i + 1;
    }
    after = resident_pages();
    // A freed block retires its page and the guard page behind it. The heap may retire more per block.
    CHECK(first_reused < 0 || first_reused >= RETIRED / (64 << 10) / 2, "no address comes again before that");
    CHECK(first_reused > 0 && first_reused <= RETIRED / PAGE + 1000, "addresses come again when it is");
    CHECK(reuses > MOST / 2, "and go on to");
    CHECK(most_passed_over <= 256, "those that died first come first");
    CHECK((after - before) * PAGE < 48 << 20, "dead blocks take no memory");
    if (check_failures)
        fprintf(stderr, "first reused at %d, %d reuses, %ld passed over, %ld pages more\n", first_reused, reuses,
                most_passed_over, after - before);
}

// Frees fewer bytes than retired_bytes: no address may be reused.
static void check_all_different(void) {
    enum { COUNT = 200000 };
    static uint8_t seen[1 << 24];
    uint64_t lowest = 0;
    int repeated = 0, far = 0;
    for (int i = 0; i < COUNT; i++) {
        char *block = malloc((size_t)i % 64 + 1);
        uint64_t page = address_of_page(block);
        if (i == 0) lowest = page - (1 << 20);
        if (page - lowest >= 1 << 24) far++;
        else repeated += seen[page - lowest]++;
        free(block);
    }
    CHECK_EQUAL(repeated, 0, "no address comes again before the budget is spent");
    CHECK_EQUAL(far, 0, "the addresses lie close together");
    CHECK(resident_pages() * PAGE < 256 << 20, "dead blocks take no memory");
}

// MARK: processes and threads

static int ends_by(void (*function)(char *), char *block) {
    pid_t child = fork();
    if (child == 0) {
        function(block);
        _exit(0);
    }
    return life_wait(child);
}

static void read_byte(char *at) { (void)*(volatile char *)at; }
static void write_byte(char *at) { *(volatile char *)at = 1; }
static void free_and_read(char *block) {
    free(block);
    read_byte(block);
}

enum { FORKED = 200, SEGV = 128 + SIGSEGV };

static void check_fork(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    static char *dead[FORKED], *live[FORKED];
    for (int i = 0; i < FORKED; i++) {
        dead[i] = malloc(sizes[i % SIZES]);
        live[i] = malloc(sizes[i % SIZES]);
        memset(live[i], i, sizes[i % SIZES]);
    }
    for (int i = 0; i < FORKED; i++) free(dead[i]);
    pid_t child = fork();
    if (child == 0) {
        check_count = check_failures = 0;
        for (int i = 0; i < FORKED; i++) {
            size_t size = sizes[i % SIZES];
            CHECK(is_dead(dead[i], size), "what was dead before a fork is dead in the child");
            CHECK(is_isolated(live[i], size), "the guards of live blocks are there in the child");
            CHECK(is_full_of((unsigned char *)live[i], size, (unsigned char)i), "and the blocks' contents");
        }
        for (int i = 0; i < FORKED; i += 2) {
            free(live[i]);
            CHECK(is_dead(live[i], sizes[i % SIZES]), "a block from before the fork dies in the child");
        }
        for (int i = 0; i < 2000; i++) {
            char *block = malloc(sizes[i % SIZES]);
            memset(block, 1, sizes[i % SIZES]);
            free(block);
            if (i % 50 == 0) CHECK(is_dead(block, sizes[i % SIZES]), "the child's own blocks die");
        }
        _exit(check_failures ? 1 : 0);
    }
    CHECK_EQUAL(life_wait(child), 0, "a child's checks");
    for (int i = 0; i < FORKED; i++) {
        size_t size = sizes[i % SIZES];
        CHECK(is_full_of((unsigned char *)live[i], size, (unsigned char)i), "the parent's live blocks are as before");
        CHECK(is_dead(dead[i], size), "and its dead ones");
    }
    for (int i = 0; i < 12; i++) {
        size_t size = sizes[i];
        CHECK_EQUAL(ends_by(read_byte, dead[i]), SEGV, "a child reads a dead block");
        CHECK_EQUAL(ends_by(write_byte, dead[i] + size - 1), SEGV, "a child writes to one");
        CHECK_EQUAL(ends_by(read_byte, (char *)fence_of(live[i], size, 16)), SEGV, "a child reads beyond a live one");
        CHECK_EQUAL(ends_by(free_and_read, live[i]), SEGV, "a child reads what it has freed");
        CHECK_EQUAL(ends_by(read_byte, live[i]), 0, "a child reads a live block");
    }
    for (int i = 0; i < FORKED; i++) free(live[i]);
}

enum { THREADS = 4, SHELF = 512 };
static void *shelf[SHELF]; // blocks on their way from the allocating to the freeing thread
static int thread_failures;

struct parcel {
    uint32_t size;
    uint8_t byte;
    unsigned char bytes[];
};

static void give_back(struct parcel *parcel) {
    if (!parcel) return;
    bool is_intact = is_full_of(parcel->bytes, parcel->size, parcel->byte);
    if (!is_intact) __atomic_fetch_add(&thread_failures, 1, __ATOMIC_RELAXED);
    free(parcel);
}

static void *trade(void *seed) {
    uint64_t state = (uint64_t)seed;
    for (int i = 0; i < 50000; i++) {
        uint64_t r = random_number(&state);
        uint32_t size = (uint32_t)(r % 50 ? (r >> 16) % 300 : (r >> 16) % 40000);
        struct parcel *parcel = r & 1 << 12 ? malloc(sizeof *parcel + size) : calloc(1, sizeof *parcel + size);
        if (!parcel) __atomic_fetch_add(&thread_failures, 1, __ATOMIC_RELAXED);
        parcel->size = size;
        parcel->byte = (uint8_t)(r >> 40);
        memset(parcel->bytes, parcel->byte, size);
        give_back(__atomic_exchange_n(&shelf[(r >> 50) % SHELF], parcel, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void check_threads(void) {
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, trade, (void *)(i + 1));
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *block = malloc(100);
            free(block);
            _exit(is_dead(block, 100) ? 0 : 1);
        }
        CHECK_EQUAL(life_wait(child), 0, "a fork while others allocate: the child's blocks die");
        usleep(20000);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SHELF; i++) give_back(shelf[i]);
    CHECK_EQUAL(thread_failures, 0, "blocks go from thread to thread untouched");
    CHECK(is_dead(shelf[0], 1) || !shelf[0], "and die in another thread than they were made in");
}

// MARK: locked memory

static void check_locked(void) {
    char *before = malloc(5000);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        CHECK(errno == EPERM || errno == ENOMEM || errno == EAGAIN, "memory that may not be locked");
        return;
    }
    for (int i = 0; i < 2000; i++) {
        size_t size = sizes[i % SIZES];
        unsigned char *block = i & 1 ? malloc(size) : calloc(1, size);
        CHECK(block && (i & 1 || is_full_of(block, size, 0)), "a block of locked memory");
        memset(block, 0x44, size);
        block = realloc(block, size + 100);
        CHECK(block && is_full_of(block, size, 0x44), "keeps its contents");
        free(block);
        if (i % 20 == 0) CHECK(is_dead((char *)block, size + 100), "and dies");
    }
    memset(before, 1, 5000);
    free(before);
    CHECK(is_dead(before, 5000), "a block from before dies, too");
    munlockall();
    char *after = malloc(100);
    free(after);
    CHECK(is_dead(after, 100), "and one that was made when memory was not locked any more");
}

// MARK: which blocks are isolated

enum { ASKED = 1000 };

static __attribute__((noinline)) char *make_here(void) {
    char *block = malloc(100);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

static __attribute__((noinline)) char *make_there(void) {
    char *block = malloc(100);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

// Counts the isolated blocks among `count` blocks from one call site that are live at the same time.
static int count_isolated(char *(*make)(void), int count) {
    static char *blocks[ASKED];
    int isolated = 0;
    for (int i = 0; i < count; i++) {
        blocks[i] = make();
        memset(blocks[i], 1, 100);
        isolated += is_isolated(blocks[i], 100);
    }
    for (int i = 0; i < count; i++) free(blocks[i]);
    return isolated;
}

static void check_bytes(void) {
    int most = (1 << 20) / PAGE, first = count_isolated(make_here, ASKED);
    CHECK(first <= most, "no more blocks in use are isolated than isolated_bytes allows");
    CHECK(first > most / 2, "but as many as that");
    CHECK(count_isolated(make_there, ASKED) > most / 2, "and again when those are dead");
}

static void check_first_ones(void) {
    CHECK_EQUAL(count_isolated(make_here, 3), 3, "the first blocks of a context are isolated");
    CHECK_EQUAL(count_isolated(make_there, 3), 3, "those of another context, too");
    int later = count_isolated(make_here, ASKED);
    CHECK(later < ASKED / 10, "later ones only now and then");
    if (later >= ASKED / 10) fprintf(stderr, "%d of %d later ones\n", later, ASKED);
}

static void check_none(void) { CHECK_EQUAL(count_isolated(make_here, ASKED), 0, "no block is isolated"); }

// MARK: the modes

static const struct mode {
    const char *name, *options;
    const char *mappings;
    void (*check)(void);
} modes[] = {
    {"blocks", "profile=fence", "", check_blocks},
    {"blocks-guard", "profile=fence:protect=guard", "", check_blocks},
    {"blocks-mprotect", "profile=fence:protect=mprotect", "", check_blocks},
    {"zeros", "profile=fence:retired_bytes=16m", "", check_zeros},
    {"zeros-mprotect", "profile=fence:retired_bytes=16m:protect=mprotect", "", check_zeros},
    {"resizing", "profile=fence", "", check_resizing},
    {"resizing-mprotect", "profile=fence:retired_bytes=4m:protect=mprotect", "", check_resizing},
    {"churn", "profile=fence", "", check_churn},
    {"churn-small", "profile=fence:retired_bytes=64m", "", check_churn},
    {"mappings", "profile=fence:protect=mprotect", "32000", check_interleaved},
    {"mappings-some", "profile=fence:protect=mprotect:mappings=1000", "1000", check_interleaved},
    {"mappings-few", "profile=fence:protect=mprotect:mappings=300", "300", check_interleaved},
    {"borders", "profile=fence:retired_bytes=8m", "", check_borders},
    {"borders-mprotect", "profile=fence:retired_bytes=8m:protect=mprotect", "", check_borders},
    {"addresses", "profile=fence:retired_bytes=64m", "", check_addresses},
    {"addresses-mprotect", "profile=fence:retired_bytes=64m:protect=mprotect", "", check_addresses},
    {"different", "profile=fence:retired_bytes=5g", "", check_all_different},
    {"fork", "profile=fence", "", check_fork},
    {"fork-mprotect", "profile=fence:protect=mprotect", "", check_fork},
    {"threads", "profile=fence", "", check_threads},
    {"threads-small", "profile=fence:retired_bytes=16m", "", check_threads},
    {"threads-mprotect", "profile=fence:protect=mprotect", "", check_threads},
    {"locked", "profile=fence", "", check_locked},
    {"locked-mprotect", "profile=fence:protect=mprotect", "", check_locked},
    {"bytes", "profile=fence:isolated_bytes=1m", "", check_bytes},
    {"first-ones", "isolated_per_context=3:isolated_overhead=100%", "", check_first_ones},
    {"none", "isolated_per_context=0", "", check_none},
};

static const struct mode *entered;

static void enter(void) {
    char options[256];
    snprintf(options, sizeof options, "%s:isolated_windows=off:report_path=/dev/null", entered->options);
    setenv("ZGUARD_OPTIONS", options, 1);
    setenv("ZG_TEST_MAPPINGS", entered->mappings, 1);
}

// Like life_run_self, but without a deadline: the test driver has one.
static int run_mode(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        enter();
        execl("/proc/self/exe", "self", entered->name, (char *)NULL);
        _exit(254);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **words) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (count == 2 && !strcmp(words[1], modes[i].name)) {
            modes[i].check();
            if (check_failures) fprintf(stderr, "%s: %d of %d failed\n", modes[i].name, check_failures, check_count);
            return check_failures ? 1 : 0;
        }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        entered = &modes[i];
        int status = run_mode();
        CHECK_EQUAL(status, 0, modes[i].name);
    }
    return check_end();
}
