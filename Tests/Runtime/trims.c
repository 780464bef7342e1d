// Memory is given back again and again: what was given back, and is not used since, is not gone over once more.
// qemu-user: it says of memory that it was given back, and keeps it
// link: runtime
// also: protect=mprotect:fence_windows=off
// options: fence_per_context=0:report_path=/dev/null

#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"

enum { COUNT = 60000, BYTES = 64, KEPT = 500 };
static char *blocks[COUNT];

static __attribute__((noinline)) uint64_t give_back(void) {
    uint64_t bytes = zg_entry_trim(true, HEAP_FRAME);
    __asm__ volatile("" ::: "memory");
    return bytes;
}

int main(void) {
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    for (int i = 0; i < COUNT; i++) blocks[i] = heap_allocate(BYTES, 16, false);
    for (int i = 0; i < COUNT; i++)
        if (i % KEPT) heap_free(blocks[i]); // a few in each run live on
    CHECK(give_back() > COUNT * BYTES / 2, "most of the memory goes back");
    uint64_t again = 0;
    for (int i = 0; i < 10; i++) again += give_back();
    CHECK_EQUAL(again, 0, "and nothing of it a second time");
    for (int i = 0; i < COUNT; i += KEPT) heap_free(blocks[i]);
    CHECK(give_back() > 0, "what dies meanwhile goes back as well");
    give_back();
    CHECK_EQUAL(give_back(), 0, "once");
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = heap_allocate(BYTES, 16, false);
        for (int j = 0; j < BYTES; j++) blocks[i][j] = 1; // whatever was given back can be used where it is handed out
    }
    for (int i = 0; i < COUNT; i++)
        if (i % KEPT) heap_free(blocks[i]);
    CHECK(give_back() > COUNT * BYTES / 2, "and goes back again");
    return check_end();
}
