// A slot that was never allocated keeps no record of a block, even when it is retired with freed neighbors.
// link: runtime
// options: isolated_per_context=0:report_path=/dev/null

#include <pthread.h>

#include "blocks/slab.h"
#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"

enum { BYTES = 6144 };
static char *block;

// When this thread ends, its magazine holds slots that were never allocated. They become free for other threads.
static void *make_one(void *context) {
    block = heap_allocate(BYTES, 16, false);
    heap_free(block);
    return context;
}

static __attribute__((noinline)) void give_back(void) {
    zg_entry_trim(true, HEAP_FRAME);
    __asm__ volatile("" ::: "memory");
}

int main(void) {
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    pthread_t thread;
    pthread_create(&thread, NULL, make_one, NULL);
    pthread_join(thread, NULL);
    const struct zg_slab *slab = &zg_slabs.slab[zg_size_class(BYTES)];
    CHECK(slab->used > 1, "more slots were handed out than were used");
    give_back();
    CHECK(heap_state_of(block) != zg_state_fresh, "the block is remembered");
    uint64_t retired = 0;
    for (uint64_t i = 0; i < slab->used; i++) {
        const char *slot = (const char *)zg_slab_slot_address(slab, i);
        struct zg_block_view view;
        if (slot == block) continue;
        retired += zg_header_state(slab->blocks[i].header) != zg_state_fresh;
        CHECK(!zg_lookup_block((uint64_t)slot, &view), "its neighbours never were blocks");
    }
    CHECK(retired, "though they have been held or retired");
    CHECK(heap_allocate(BYTES, 16, true), "and serve afterwards");
    return check_end();
}
