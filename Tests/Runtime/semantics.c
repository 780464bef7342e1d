// The allocation functions do what glibc's manual says: results, errno, alignment, overflow, queries.
// preload
// control

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static bool is_aligned(const void *block, uint64_t alignment) { return (uint64_t)block % alignment == 0; }

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i]) return false;
    return true;
}

static const size_t sizes[] = {0,     1,      7,      8,      15,     16,      17,      31,      32,      33,
                               63,    64,     65,     100,    127,    128,     129,     160,     161,     255,
                               256,   257,    511,    512,    513,    1000,    1024,    1025,    2047,    2048,
                               2049,  4095,   4096,   4097,   8191,   8192,    8193,    16383,   16384,   16385,
                               24575, 28672,  28673,  32767,  32768,  32769,   40000,   65535,   65536,   65537,
                               98304, 131072, 131073, 262144, 262145, 1048575, 1048576, 1048577, 3000000, 16777216};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_malloc(void) {
    unsigned char *blocks[SIZES];
    for (int i = 0; i < SIZES; i++) {
        errno = 77;
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i], "malloc gives a block of every size, 0 too");
        CHECK_EQUAL(errno, 77, "malloc leaves errno alone on success");
        CHECK(is_aligned(blocks[i], promised_alignment(sizes[i])), "malloc aligns");
        CHECK(malloc_usable_size(blocks[i]) >= sizes[i], "the usable size covers what was asked for");
        memset(blocks[i], i, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < SIZES; i++) {
        bool intact = true;
        for (size_t j = 0; j < sizes[i]; j++) intact = intact && blocks[i][j] == i;
        CHECK(intact, "no two blocks share a byte");
    }
    for (int i = 0; i < SIZES; i++) {
        errno = 78;
        free(blocks[i]);
        CHECK_EQUAL(errno, 78, "free leaves errno alone");
    }
    errno = 79;
    free(NULL);
    CHECK_EQUAL(errno, 79, "free(NULL) leaves errno alone");
    CHECK_EQUAL(malloc_usable_size(NULL), 0, "NULL has no usable bytes");
    void *one = malloc(0), *other = malloc(0);
    CHECK(one != other, "blocks of 0 bytes are distinct");
    free(one);
    free(other);
}

static void check_too_much(void) {
    static const size_t most[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX - 16, SIZE_MAX};
    for (int i = 0; i < 4; i++) {
        void *block = NULL;
        errno = 0;
        CHECK(!malloc(most[i]) && errno == ENOMEM, "malloc over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!calloc(1, most[i]) && errno == ENOMEM, "calloc over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!calloc(most[i], 1) && errno == ENOMEM, "calloc of that many fails with ENOMEM");
        errno = 0;
        CHECK(!realloc(NULL, most[i]) && errno == ENOMEM, "realloc(NULL) over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!memalign(64, most[i]) && errno == ENOMEM, "memalign over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!aligned_alloc(4096, most[i]) && errno == ENOMEM, "aligned_alloc over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!valloc(most[i]) && errno == ENOMEM, "valloc over PTRDIFF_MAX fails with ENOMEM");
        errno = 0;
        CHECK(!pvalloc(most[i]) && errno == ENOMEM, "pvalloc over PTRDIFF_MAX fails with ENOMEM");
        CHECK_EQUAL(posix_memalign(&block, 64, most[i]), ENOMEM, "posix_memalign over PTRDIFF_MAX gives ENOMEM");
    }
    // A size below the limit, but larger than any machine's memory.
    errno = 0;
    CHECK(!malloc(PTRDIFF_MAX) && errno == ENOMEM, "malloc(PTRDIFF_MAX) fails with ENOMEM");
    errno = 0;
    CHECK(!malloc((size_t)1 << 60) && errno == ENOMEM, "malloc of 2^60 bytes fails with ENOMEM");
    errno = 0;
    CHECK(!calloc((size_t)1 << 30, (size_t)1 << 30) && errno == ENOMEM, "calloc of 2^60 bytes fails with ENOMEM");
    static const size_t counts[] = {(size_t)1 << 32, ((size_t)1 << 63) + 1, SIZE_MAX, SIZE_MAX / 2 + 1};
    for (int i = 0; i < 4; i++) {
        size_t by = i == 0 ? (size_t)1 << 32 : 2;
        char *block = malloc(50);
        memset(block, 'x', 50);
        errno = 0;
        CHECK(!calloc(counts[i], by) && errno == ENOMEM, "calloc's product overflows: ENOMEM");
        errno = 0;
        CHECK(!calloc(by, counts[i]) && errno == ENOMEM, "calloc's product overflows the other way round: ENOMEM");
        errno = 0;
        CHECK(!reallocarray(NULL, counts[i], by) && errno == ENOMEM, "reallocarray(NULL) overflows: ENOMEM");
        errno = 0;
        CHECK(!reallocarray(block, counts[i], by) && errno == ENOMEM, "reallocarray overflows: ENOMEM");
        errno = 0;
        CHECK(!realloc(block, (size_t)PTRDIFF_MAX + 1) && errno == ENOMEM, "realloc over PTRDIFF_MAX: ENOMEM");
        errno = 0;
        CHECK(!realloc(block, (size_t)1 << 60) && errno == ENOMEM, "realloc to 2^60 bytes: ENOMEM");
        bool intact = true;
        for (int j = 0; j < 50; j++) intact = intact && block[j] == 'x';
        CHECK(intact, "a failed realloc leaves the block as it was");
        free(block);
    }
}

static void check_calloc(void) {
    for (int i = 0; i < SIZES; i++)
        for (int round = 0; round < 40; round++) {
            // From the second round on, the block reuses memory that was written before.
            size_t size = sizes[i];
            if (size > 1 << 20 && round > 2) break;
            errno = 80;
            unsigned char *block = calloc(1, size);
            if (round < 2 || !block) {
                CHECK(block && errno == 80, "calloc gives a block and leaves errno alone");
                CHECK(is_aligned(block, promised_alignment(size)), "calloc aligns");
            }
            CHECK(is_zero(block, size), "calloc's block is zero, reused or not");
            memset(block, 0xee, malloc_usable_size(block));
            free(block);
        }
    unsigned char *block = calloc(1000, 1000);
    CHECK(is_zero(block, 1000000), "calloc multiplies");
    free(block);
    block = calloc(0, 10);
    CHECK(block, "calloc(0, 10) gives a block");
    free(block);
    block = calloc(10, 0);
    CHECK(block, "calloc(10, 0) gives a block");
    free(block);
    // Memory reused through realloc: spans that grew and shrank are dirty beyond their current size.
    for (int round = 0; round < 50; round++) {
        block = malloc(200000);
        memset(block, 0xdd, 200000);
        block = realloc(block, 140000);
        free(block);
        unsigned char *zeros = calloc(1, 200000);
        CHECK(is_zero(zeros, 200000), "calloc after a shrunk large block is zero");
        memset(zeros, 0xcc, 200000);
        free(zeros);
    }
}

static void check_realloc(void) {
    void *block = realloc(NULL, 100);
    CHECK(block && malloc_usable_size(block) >= 100, "realloc(NULL, n) is malloc(n)");
    errno = 81;
    CHECK(!realloc(block, 0), "realloc(p, 0) frees and gives NULL");
    CHECK_EQUAL(errno, 81, "realloc(p, 0) leaves errno alone");
    block = realloc(NULL, 0);
    CHECK(block, "realloc(NULL, 0) is malloc(0)");
    block = realloc(block, 24);
    CHECK(block, "a block of 0 bytes grows");
    free(block);
    block = reallocarray(NULL, 10, 10);
    CHECK(block && malloc_usable_size(block) >= 100, "reallocarray(NULL) allocates");
    memset(block, 7, 100);
    errno = 82;
    block = reallocarray(block, 1000, 100);
    CHECK(block && ((char *)block)[99] == 7 && errno == 82, "reallocarray grows and leaves errno alone");
    CHECK(!reallocarray(block, 0, 100), "reallocarray(p, 0, n) frees");
    void *large = malloc(300000);
    CHECK(!realloc(large, 0), "realloc(large, 0) frees");
}

static void check_alignment(void) {
    for (uint64_t alignment = 1; alignment <= 2097152; alignment *= 2)
        for (int i = 0; i < SIZES; i += 3) {
            size_t size = sizes[i];
            errno = 83;
            unsigned char *block = memalign(alignment, size);
            CHECK(block && is_aligned(block, alignment), "memalign aligns");
            CHECK_EQUAL(errno, 83, "memalign leaves errno alone");
            CHECK(malloc_usable_size(block) >= size, "memalign's block is as long as asked for");
            memset(block, 1, size);
            free(block);
            block = aligned_alloc(alignment, size);
            CHECK(block && is_aligned(block, alignment), "aligned_alloc aligns");
            memset(block, 2, size);
            unsigned char *grown = realloc(block, size + 100);
            CHECK(grown && (!size || (grown[0] == 2 && grown[size - 1] == 2)), "an aligned block can be resized");
            free(grown);
            if (alignment < sizeof(void *)) continue;
            void *other = NULL;
            CHECK_EQUAL(posix_memalign(&other, alignment, size), 0, "posix_memalign succeeds");
            CHECK(other && is_aligned(other, alignment), "posix_memalign aligns");
            CHECK_EQUAL(errno, 83, "posix_memalign never sets errno");
            memset(other, 3, size);
            free(other);
        }
    static const size_t odd[] = {3, 5, 24, 48, 100, 1000, 3000, 5000, 100000};
    for (int i = 0; i < 9; i++) {
        void *block = memalign(odd[i], 100);
        uint64_t rounded = 1;
        while (rounded < odd[i]) rounded *= 2;
        CHECK(block && is_aligned(block, rounded), "memalign rounds an odd alignment up to a power of two");
        free(block);
    }
    // Allocates many blocks at a time, so that not only a class's first slots are tested.
    for (uint64_t alignment = 32; alignment <= 4096; alignment *= 2) {
        void *blocks[100];
        for (int i = 0; i < 100; i++) {
            blocks[i] = memalign(alignment, (size_t)(i * 37));
            CHECK(is_aligned(blocks[i], alignment), "every one of many aligned blocks is aligned");
        }
        for (int i = 0; i < 100; i++) free(blocks[i]);
    }
    volatile size_t impossible = SIZE_MAX;
    errno = 0;
    CHECK(!memalign(impossible, 10), "memalign with an alignment that cannot be fails");
    CHECK(errno == EINVAL || errno == ENOMEM, "and says why");
}

static void check_posix_errors(void) {
    static const size_t bad[] = {
        0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 24, 40, 48, 100, 4095, 4097, SIZE_MAX, ((size_t)1 << 63) + 8};
    for (int i = 0; i < 19; i++) {
        void *block = (void *)0x1234;
        errno = 84;
        CHECK_EQUAL(posix_memalign(&block, bad[i], 100), EINVAL, "posix_memalign refuses the alignment");
        CHECK(block == (void *)0x1234, "posix_memalign leaves the pointer alone on failure");
        CHECK_EQUAL(errno, 84, "posix_memalign leaves errno alone on failure");
    }
    void *block = (void *)0x1234;
    errno = 85;
    CHECK_EQUAL(posix_memalign(&block, 16, (size_t)1 << 60), ENOMEM, "posix_memalign of 2^60 bytes gives ENOMEM");
    CHECK(block == (void *)0x1234, "posix_memalign leaves the pointer alone where there is no memory");
    CHECK_EQUAL(posix_memalign(&block, sizeof(void *), 0), 0, "posix_memalign of 0 bytes succeeds");
    free(block);
}

static void check_pages(void) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SIZES; i++) {
        char *block = valloc(sizes[i]);
        CHECK(block && is_aligned(block, page), "valloc aligns to a page");
        memset(block, 4, sizes[i]);
        free(block);
        block = pvalloc(sizes[i]);
        size_t rounded = (sizes[i] + page - 1) / page * page;
        CHECK(block && is_aligned(block, page), "pvalloc aligns to a page");
        CHECK(malloc_usable_size(block) >= rounded, "pvalloc rounds up to whole pages");
        memset(block, 5, rounded);
        free(block);
    }
}

static void check_queries(void) {
    struct mallinfo2 before = mallinfo2();
    void *block = malloc(10 << 20);
    memset(block, 1, 10 << 20);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.arena + after.hblkhd >= (size_t)10 << 20, "mallinfo2 counts what the heap takes");
    CHECK(after.uordblks + after.hblkhd >= before.uordblks + before.hblkhd + (10 << 20),
          "mallinfo2 counts blocks in use");
    CHECK(after.arena + after.hblkhd < (size_t)1 << 40, "mallinfo2's counts are sane");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
    CHECK((size_t)narrow.uordblks + (size_t)narrow.hblkhd >= (size_t)10 << 20, "mallinfo tells the same");
    free(block);
    after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd < (before.uordblks + before.hblkhd) + (5 << 20),
          "a freed block is no longer in use");
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1, "malloc_trim gives 0 or 1");
    CHECK_EQUAL(mallopt(M_TRIM_THRESHOLD, 1 << 20), 1, "mallopt accepts the trim threshold");
    CHECK_EQUAL(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1, "mallopt accepts the mmap threshold");
    CHECK_EQUAL(mallopt(M_PERTURB, 0), 1, "mallopt accepts M_PERTURB");
    CHECK_EQUAL(mallopt(M_ARENA_MAX, 4), 1, "mallopt accepts M_ARENA_MAX");

    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK_EQUAL(malloc_info(0, stream), 0, "malloc_info succeeds");
    fclose(stream);
    CHECK(length > 10 && strlen(text) == length, "malloc_info writes to the stream it was given");
    CHECK(strncmp(text, "<malloc version=\"1\">", 20) == 0, "malloc_info opens with its root element");
    CHECK(strstr(text, "</malloc>"), "malloc_info closes its root element");
    free(text);
    int result = malloc_info(1, stdout);
    CHECK_EQUAL(result, EINVAL, "malloc_info knows no options");
}

// Functions of C23. glibc has them since 2.43, so the control run may lack them.
static void check_sized_free(void) {
    extern void free_sized(void *, size_t) __attribute__((weak));
    extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
    CHECK(free_sized || !getenv("LD_PRELOAD"), "the library has free_sized");
    CHECK(free_aligned_sized || !getenv("LD_PRELOAD"), "the library has free_aligned_sized");
    for (int i = 0; i < SIZES; i++) {
        errno = 86;
        if (free_sized) free_sized(malloc(sizes[i]), sizes[i]);
        if (free_sized) free_sized(calloc(sizes[i], 1), sizes[i]);
        if (free_aligned_sized) free_aligned_sized(aligned_alloc(64, sizes[i]), 64, sizes[i]);
        CHECK_EQUAL(errno, 86, "sized frees leave errno alone");
    }
    if (free_sized) free_sized(NULL, 0);
    if (free_aligned_sized) free_aligned_sized(NULL, 16, 0);
}

int main(void) {
    check_malloc();
    check_too_much();
    check_calloc();
    check_realloc();
    check_alignment();
    check_posix_errors();
    check_pages();
    check_queries();
    check_sized_free();
    check_malloc();
    return check_end();
}
