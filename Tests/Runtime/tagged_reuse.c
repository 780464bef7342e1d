// Profile mte without a quarantine: a stale pointer leads to the freed block, even after its slot was reused.
// processor: aarch64
// preload
// options: profile=mte:quarantine_bytes=0:report_path=findings-%p.jsonl
// warning: zguard

#include <malloc.h>

#include "tagged.h"

enum { SIZE = 48, OTHER = 40, OWNERS = 6 };

static char *block, *other;
static volatile char sink;

// Successive blocks in one slot all have different tags.
static void check_owners(void) {
    enum { IN_OTHER_SLOTS = 200 }; // the first blocks of a size lie in slots of a larger class
    for (int i = 0; i < IN_OTHER_SLOTS; i++) sink = *(volatile char *)malloc(SIZE);
    char *owners[OWNERS] = {malloc(SIZE)};
    for (int i = 1; i < OWNERS; i++) {
        free(owners[i - 1]);
        owners[i] = next_at(owners[i - 1], SIZE);
        if (!CHECK(owners[i] != NULL, "the place is used again")) return;
        for (int j = 0; j < i; j++) CHECK(tag_of(owners[j]) != tag_of(owners[i]), "with a tag that it did not have");
    }
    free(owners[OWNERS - 1]);
}

// Places the smaller `other` at the address of the freed `block`.
static void prepare(void) {
    block = malloc(SIZE);
    free(block);
    other = next_at(block, OTHER);
    if (!other) _exit(77);
}

static void read_it(void) { sink = block[3]; }
static void write_behind_the_other(void) { *(volatile char *)(block + OTHER + 7) = 1; }
static void free_it(void) { free(block); }
static void resize_it(void) { sink = *(char *)realloc(block, 100); }
static void ask_its_size(void) { sink = (char)malloc_usable_size(block); }
static void write_it_out(void) { sink = (char)write(-1, block, 10); }
static void read_into_it(void) { sink = (char)read(-1, block + 8, 10); }
static const struct row rows[] = {
    {read_it, "use-after-free", "read", "exact", "reusable", SIZE, 3, SIGSEGV},
    {write_behind_the_other, "use-after-free", "write", "exact", "reusable", SIZE, OTHER + 7, SIGSEGV},
    {free_it, "double-free", "free", "exact", "reusable", SIZE, 0, SIGABRT},
    {resize_it, "double-free", "free", "exact", "reusable", SIZE, 0, SIGABRT},
    {ask_its_size, "use-after-free", "read", "exact", "reusable", SIZE, 0, 0},
    {write_it_out, "use-after-free", "read", "exact", "reusable", SIZE, 0, SIGABRT},
    {read_into_it, "use-after-free", "write", "exact", "reusable", SIZE, 8, SIGABRT},
};
int main(void) {
    if (!has_tags()) {
        CHECK_EQUAL(tag_of(malloc(10)), 0, "without tags in the processor there are none");
        return check_end();
    }
    check_owners();
    check_rows(rows, sizeof rows / sizeof rows[0], prepare);
    return check_end();
}
