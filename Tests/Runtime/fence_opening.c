// on_finding=continue makes the runtime's pages accessible for the faulting instruction, but never the program's pages.
// link: runtime
// options: profile=fence:on_finding=continue:isolated_overhead=100%

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "heap_calls.h"
#include "pages/revive.h"
#include "platform/os.h"

enum { PAGE = 4096, SIZE = 100 };

// Reads the four permission letters of the address's mapping from /proc/self/maps.
static void permissions_of(const void *address, char letters[5]) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    strcpy(letters, "none");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char found[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, found) == 3 && (uint64_t)address >= from && (uint64_t)address < to)
            strcpy(letters, found);
    }
    if (maps) fclose(maps);
}

static void check_left_alone(void *address, const char *what) {
    char before[5], after[5];
    permissions_of(address, before);
    CHECK(!zg_revive_isolated_at((uint64_t)address), what);
    permissions_of(address, after);
    CHECK(!strcmp(before, after), what);
}

static uint64_t word_at(const void *address) {
    uint64_t word = 1;
    return zg_os_read_memory(&word, (uint64_t)address, sizeof word) == sizeof word ? word : 1;
}

int main(void) {
    char *block = heap_allocate(SIZE, 16, false), *next = heap_allocate(SIZE, 16, false);
    memset(block, 'x', SIZE);
    heap_free(block);
    struct zg_block_view view;
    CHECK(zg_lookup_block((uint64_t)block, &view) && zg_lookup_is_isolated(&view), "a block with pages of its own");
    CHECK_EQUAL(view.state, zg_state_retired, "whose address is dead");

    char *readable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_left_alone((void *)(uintptr_t)&main, "code");
    check_left_alone(&view, "the stack");
    check_left_alone(readable, "a mapping of the program's");
    check_left_alone(none, "one that nobody may read");
    check_left_alone(NULL, "address 0");
    check_left_alone((void *)UINT64_C(0x55555555000), "where nothing is mapped");

    CHECK(zg_revive_isolated_at((uint64_t)block), "the block itself");
    CHECK(word_at(block) != 1, "is readable again");
    char *guard = (char *)(((uint64_t)next | (PAGE - 1)) + 1);
    CHECK_EQUAL(word_at(guard), 1, "a guard");
    CHECK(zg_lookup_block((uint64_t)next, &view), "of a block in use");
    CHECK(zg_revive_isolated_at((uint64_t)guard), "the guard behind it");
    CHECK_EQUAL(word_at(guard), 0, "is a page of zeros then");
    return check_end();
}
