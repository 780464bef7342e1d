// realloc keeps the contents across size classes, between slots and spans, and when pages move.
// slow
// preload
// control

#include <malloc.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"

// A byte that depends on its position, with a period that no power of two divides.
static unsigned char pattern(size_t at, unsigned salt) { return (unsigned char)(at * 131 + at / 251 + salt); }

// Writes every byte of a small block; in a large block, both ends and every 1021st byte.
static void write_pattern(unsigned char *block, size_t size, unsigned salt) {
    for (size_t at = 0; at<size; at += size> 200000 && at > 64 && at + 64 < size ? 1021 : 1)
        block[at] = pattern(at, salt);
}

static bool has_pattern(const unsigned char *block, size_t size, size_t written, unsigned salt) {
    for (size_t at = 0; at<size; at += written> 200000 && at > 64 && at + 64 < written ? 1021 : 1)
        if (block[at] != pattern(at, salt)) return false;
    return true;
}

static void resize(size_t from, size_t to, unsigned salt) {
    unsigned char *block = malloc(from);
    write_pattern(block, from, salt);
    unsigned char *resized = realloc(block, to);
    size_t kept = from < to ? from : to;
    if (!CHECK(resized, "realloc succeeds")) return;
    CHECK((uint64_t)resized % promised_alignment(to) == 0, "realloc aligns");
    CHECK(malloc_usable_size(resized) >= to, "realloc gives what was asked for");
    if (!CHECK(has_pattern(resized, kept, from, salt), "realloc keeps the contents"))
        fprintf(stderr, "  from %zu to %zu\n", from, to);
    memset(resized + kept, 0x11, to - kept);
    free(resized);
}

int main(void) {
    size_t sizes[400];
    int count = 0;
    for (size_t size = 1; size < 140; size += 5) sizes[count++] = size;
    for (size_t base = 128; base <= 65536; base *= 2)
        for (int quarter = 0; quarter < 4; quarter++)
            for (int by = -1; by <= 1; by++) sizes[count++] = base + base / 4 * (size_t)quarter + (size_t)by;
    unsigned salt = 1;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j += 1 + (i + j) % 3) resize(sizes[i], sizes[j], salt++);

    static const size_t large[] = {100,     32768,    32769,    65536,    65537,    131072,  1000000,
                                   1048575, 1048576,  1048577,  1052672,  2000000,  2097152, 3145729,
                                   4194304, 10000000, 16777217, 33554432, 50000000, 67108864};
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++) resize(large[i], large[j], salt++);

    // Grow one block to 64 MiB and shrink it again. Check its old contents at every step.
    unsigned char *block = malloc(1);
    size_t size = 1;
    block[0] = pattern(0, 9);
    while (size < 67108864) {
        size_t next = size + size / 3 + 1;
        block = realloc(block, next);
        bool intact = true;
        for (size_t at = 0; at<size; at += size> 100000 ? 509 : 1) intact = intact && block[at] == pattern(at, 9);
        CHECK(intact, "a growing block keeps its contents");
        for (size_t at = 0; at < next; at++) block[at] = pattern(at, 9);
        size = next;
    }
    while (size > 1) {
        size_t next = size / 3 + 1;
        if (next >= size) next = size - 1;
        block = realloc(block, next);
        bool intact = true;
        for (size_t at = 0; at<next; at += next> 100000 ? 509 : 1) intact = intact && block[at] == pattern(at, 9);
        CHECK(intact, "a shrinking block keeps its contents");
        size = next;
    }
    free(block);

    // Moved pages: the old addresses become inaccessible, and writes to the new block do not reach later blocks at the
    // old addresses.
    for (int round = 0; round < 20; round++) {
        unsigned char *first = malloc(2 << 20), *second = malloc(3 << 20);
        memset(first, 0xa1, 2 << 20);
        memset(second, 0xb2, 3 << 20);
        first = realloc(first, 5 << 20);
        second = realloc(second, 8 << 20);
        unsigned char *third = calloc(1, 2 << 20);
        bool intact = true, zero = true;
        for (size_t at = 0; at < 2 << 20; at += 101) {
            intact = intact && first[at] == 0xa1 && second[at] == 0xb2;
            zero = zero && !third[at];
        }
        CHECK(intact, "pages that moved hold what they held");
        CHECK(zero, "a zeroed block after a move is zero");
        memset(first, 1, 5 << 20);
        memset(third, 2, 2 << 20);
        memset(second, 3, 8 << 20);
        CHECK(first[0] == 1 && first[(5 << 20) - 1] == 1 && third[77] == 2 && second[(8 << 20) - 1] == 3,
              "they do not overlap");
        free(first);
        free(second);
        free(third);
    }

    // Aligned large blocks are moved or copied as well, at every alignment.
    for (size_t alignment = 16; alignment <= 2097152; alignment *= 4) {
        unsigned char *aligned = memalign(alignment, 1500000);
        write_pattern(aligned, 1500000, 5);
        aligned = realloc(aligned, 9000000);
        CHECK(aligned && has_pattern(aligned, 1500000, 1500000, 5), "an aligned large block keeps its contents");
        free(aligned);
    }
    return check_end();
}
