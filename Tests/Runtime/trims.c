// Trimming again and again: memory that was given back and not used since is not given back a second time.
// qemu-user: confirms that memory was given back, but keeps it
// link: runtime
// also: protect=mprotect:isolated_windows=off
// options: isolated_per_context=0:report_path=/dev/null

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
        if (i % KEPT) heap_free(blocks[i]); // a few blocks in each run stay in use
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
        // memory that was given back is usable when it is handed out again
        for (int j = 0; j < BYTES; j++) blocks[i][j] = 1;
    }
    for (int i = 0; i < COUNT; i++)
        if (i % KEPT) heap_free(blocks[i]);
    CHECK(give_back() > COUNT * BYTES / 2, "and goes back again");
    return check_end();
}
