// Most small blocks lie in windows: few additional private pages, few resident pages of old windows, contents intact.
// preload
// options: isolated_overhead=100
// timeout: 120

#include <stdbool.h>

#include "life.h"

#define MIB ((size_t)1 << 20)
enum { BITS = 10, EACH = 12, SIZES = 5, BLOCKS = (1 << BITS) * EACH };

static const size_t sizes[SIZES] = {24, 40, 56, 100, 200};
static unsigned char *blocks[BLOCKS];
static size_t made;

static size_t size_of(size_t number) { return sizes[number % SIZES]; }

// Two call sites at each level give each path a stack of its own.
__attribute__((noinline)) static void make(int level) {
    if (level) {
        make(level - 1);
        __asm__ volatile("");
        make(level - 1);
        __asm__ volatile("");
        return;
    }
    for (int i = 0; i < EACH; i++, made++) {
        blocks[made] = malloc(size_of(made));
        if (blocks[made]) memset(blocks[made], (int)(made % 251), size_of(made));
    }
}

static bool is_kept(size_t number) {
    for (size_t at = 0; at < size_of(number); at++)
        if (blocks[number][at] != number % 251) return false;
    return true;
}

static bool is_page_of_its_own(const unsigned char *block) {
    char line[512];
    bool is_shared = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char letters[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, letters) == 3 && (uintptr_t)block >= from && (uintptr_t)block < to)
            is_shared = letters[3] == 's';
    }
    if (maps) fclose(maps);
    return is_shared;
}

int main(void) {
    size_t anonymous = life_status("RssAnon"), in_windows = 0;
    make(BITS);
    size_t shared = life_status("RssShmem"), grown = life_status("RssAnon") - anonymous;
    for (size_t i = 0; i < BLOCKS; i += 64) in_windows += is_page_of_its_own(blocks[i]);
    fprintf(stderr, "%zu of %d blocks lie in windows; %zu KiB of windows are resident, %zu KiB besides\n", in_windows,
            BLOCKS / 64, shared / 1024, grown / 1024);
    if (!in_windows) {
        fprintf(stderr, "this kernel has no guards for shared memory: no windows\n");
        return check_end();
    }
    CHECK(in_windows > BLOCKS / 64 / 2, "most of these blocks are in windows");
    // Of 48 MiB of addresses, only the windows used last and one open window per size are in the page tables.
    CHECK(shared < 6 * MIB, "pages of old windows are resident");
    CHECK(grown < 3 * MIB, "small blocks take private pages though windows would do");
    for (size_t i = 0; i < BLOCKS; i++) CHECK(is_kept(i), "contents of a block changed while its page was not mapped");
    for (size_t i = 0; i < BLOCKS; i += 2) free(blocks[i]);
    for (size_t i = 1; i < BLOCKS; i += 2) CHECK(is_kept(i), "contents of a block changed when others died");
    for (size_t i = 1; i < BLOCKS; i += 2) free(blocks[i]);
    return check_end();
}
