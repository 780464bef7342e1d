// Tests block records: lookups of addresses in, around and outside of slots and spans, in every state of the block.
// link: runtime

#include <string.h>

#include "blocks/slab.h"
#include "blocks/span.h"
#include "check.h"
#include "heap/quarantine.h"
#include "heap_calls.h"
#include "process/ready.h"
#include "process/thread_entry.h"

static void check_live(const char *block, uint64_t size, const char *what) {
    struct zg_block_view view;
    uint64_t offsets[] = {0, 1, size / 2, size ? size - 1 : 0};
    for (int i = 0; i < 4; i++) {
        if (size == 0 && i) break;
        if (!CHECK(zg_lookup_block((uint64_t)block + offsets[i], &view), what)) continue;
        CHECK(view.start == (uint64_t)block && view.size == size && view.offset == (int64_t)offsets[i], what);
        CHECK(view.state == zg_state_live && view.alloc_stack && !view.free_stack && view.alloc_thread, what);
    }
    CHECK(zg_lookup_is_in_heap((uint64_t)block), what);
    // The byte behind the block may lie in the slot's slack, the next slot, or the rest of the span, but never inside
    // this block.
    if (zg_lookup_block((uint64_t)block + size, &view))
        CHECK(view.start != (uint64_t)block || view.offset == (int64_t)size, what);
}

static void check_slots(void) {
    for (uint64_t size = 0; size <= ZG_LARGEST_SLOT; size += size < 300 ? 1 : 97) {
        char *block = heap_allocate(size, 16, false);
        check_live(block, size, "a slot");
        heap_free(block);
        struct zg_block_view view;
        CHECK(zg_lookup_block((uint64_t)block + size / 2, &view), "a dead slot is known");
        CHECK(view.state == zg_state_quarantined || view.state == zg_state_reusable, "it is dead");
        CHECK(view.free_stack && view.free_thread && view.size == size, "it knows who freed it");
    }
    struct zg_block_view view;
    const struct zg_slab *slab = &zg_slabs.slab[5];
    CHECK(!zg_lookup_block(slab->base + (slab->limit - 1) * slab->slot_bytes, &view), "a slot never used is no block");
    CHECK(!zg_lookup_block(zg_slabs.base + zg_slabs.bytes - 1, &view), "nor is the slabs' last byte");
    CHECK(!zg_lookup_block(zg_slabs.base + zg_slabs.bytes, &view), "nor what follows");
    CHECK(!zg_lookup_block(zg_slabs.base - 1, &view), "nor what is before");
    CHECK(!zg_lookup_block(0, &view) && !zg_lookup_block(UINT64_MAX, &view), "nor are null and the last address");
    CHECK(!zg_lookup_block((uint64_t)&view, &view) && !zg_lookup_is_in_heap((uint64_t)&view), "nor is the stack");
    CHECK(!zg_lookup_is_in_heap((uint64_t)check_slots), "nor is code");
}

static void check_spans(void) {
    static const uint64_t sizes[] = {0,       1,       4096,    32769,   65535,   65536,   65537,
                                     100000,  131072,  200001,  1048575, 1048576, 1048577, 1114112,
                                     1114113, 2000000, 4194304, 9999999, 33554432};
    uint64_t findings = zg_stats_get(zg_counter_findings);
    for (uint64_t alignment = 16; alignment <= 4194304; alignment *= 4)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *block = heap_allocate(sizes[i], alignment, false);
            if (!CHECK(block, "a span of every size and alignment")) continue;
            CHECK_EQUAL((uint64_t)block % alignment, 0, "a span is aligned");
            check_live(block, sizes[i], "a block of any size and alignment");
            if (zg_span_contains((uint64_t)block)) {
                struct zg_span *span = zg_span_find((uint64_t)block);
                CHECK(span && span->start == (uint64_t)block, "the span under a block's address is the block's");
                CHECK(zg_span_capacity(span) >= sizes[i], "the span holds the block");
                CHECK(span->start - span->base < zg_max(alignment, ZG_UNIT_BYTES),
                      "the lead is shorter than the alignment");
                CHECK(zg_span_find((uint64_t)block + (sizes[i] ? sizes[i] - 1 : 0)) == span,
                      "its last byte belongs to it");
                CHECK(zg_span_by_number(zg_span_number(span)) == span, "numbers and spans belong together");
            }
            if (sizes[i]) block[0] = block[sizes[i] - 1] = 1;
            heap_free(block);
            enum zg_state state = heap_state_of(block);
            CHECK(state == zg_state_quarantined || state == zg_state_retired || state == zg_state_reusable,
                  "a freed span is dead");
            if (sizes[i] >= 1048576 && alignment <= 65536)
                CHECK_EQUAL(state, zg_state_retired, "a large one is retired");
        }
    // Blocks of 0 bytes between other blocks: each has its own address in its own span.
    for (uint64_t alignment = 32768; alignment <= 4194304; alignment *= 2) {
        char *others[12], *empty[12];
        for (int i = 0; i < 12; i++) {
            others[i] = heap_allocate(40000, 16, false);
            empty[i] = heap_allocate(0, alignment, false);
            struct zg_span *span = zg_span_find((uint64_t)empty[i]);
            CHECK(empty[i] && (uint64_t)empty[i] % alignment == 0, "an empty block is aligned");
            CHECK(!span || span->start == (uint64_t)empty[i], "an empty block lies in its own span");
        }
        for (int i = 0; i < 12; i++) {
            heap_free(others[i]);
            heap_free(empty[i]);
        }
    }
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), findings, "no false finding");
    struct zg_block_view view;
    char *block = heap_allocate(100, 65536, false);
    CHECK(!zg_lookup_block((uint64_t)block + (UINT64_C(1) << 36), &view), "a unit never used is no block");
    heap_free(block);
}

static void check_states(void) {
    char *block = heap_allocate(100, 16, false);
    CHECK_EQUAL(heap_state_of(block), zg_state_live, "allocated: live");
    memset(block, 1, 100);
    heap_free(block);
    CHECK_EQUAL(heap_state_of(block), zg_state_quarantined, "freed: quarantined");
    bool filled = true;
    for (int i = 0; i < 112; i++) filled = filled && (unsigned char)block[i] == ZG_FILL_FREED;
    CHECK(filled, "and filled to the slot's end");
    uint64_t before = zg_stats_get(zg_counter_findings);
    heap_free(block);
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), before + 1, "freed again: a finding");
    CHECK_EQUAL(heap_state_of(block), zg_state_quarantined, "and nothing changes");
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    zg_quarantine_trim(thread, 0);
    zg_thread_leave(thread);
    CHECK_EQUAL(heap_state_of(block), zg_state_reusable, "evicted: reusable");
    CHECK_EQUAL(zg_quarantine_bytes(), 0, "an emptied quarantine holds nothing");
    heap_free(block);
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), before + 2, "freed then: a finding as well");
    before = zg_stats_get(zg_counter_findings);
    char *live = heap_allocate(100, 16, false);
    heap_free(live + 16);
    CHECK_EQUAL(zg_stats_get(zg_counter_findings), before + 1, "an interior pointer is no block to free");
    CHECK_EQUAL(heap_state_of(live), zg_state_live, "and the block lives on");
    char *large = heap_allocate(300000, 16, false);
    heap_free(large + 4096);
    CHECK_EQUAL(heap_state_of(large), zg_state_live, "nor is one inside a span");
    heap_free(large);
    CHECK_EQUAL(heap_state_of(large), zg_state_quarantined, "a span is quarantined");
    char *resized = heap_allocate(200, 16, false);
    CHECK(heap_resize(resized, 210) == resized, "a block that still fits stays");
    struct zg_block_view view;
    CHECK(zg_lookup_block((uint64_t)resized, &view) && view.size == 210, "with its new size");
    char *moved = heap_resize(resized, 5000);
    CHECK(moved != resized && heap_state_of(resized) == zg_state_quarantined, "one that moved leaves a dead block");
    heap_free(moved);
    heap_free(live);
}

// Frees blocks while the thread is in the runtime, as a signal handler may: the frees are deferred.
static void check_put_off(void) {
    enum { BLOCKS = 20 };
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = heap_allocate(40, 16, false);
    struct zg_thread *thread = zg_thread_enter(HEAP_FRAME);
    for (int i = 0; i < BLOCKS; i++) heap_free(blocks[i]);
    for (int i = 0; i < BLOCKS; i++) CHECK_EQUAL(heap_state_of(blocks[i]), zg_state_live, "the free is put off");
    zg_thread_leave(thread);
    for (int i = 0; i < BLOCKS; i++)
        CHECK_EQUAL(heap_state_of(blocks[i]), zg_state_quarantined, "and done when the runtime is left");
}

// Retired addresses are reused only if too many are retired.
static void check_retired(void) {
    enum { ROUNDS = 5000, BYTES = 1 << 20 };
    static char *starts[ROUNDS];
    int first_reuse = 0;
    for (int i = 0; i < ROUNDS && !first_reuse; i++) {
        starts[i] = heap_allocate(BYTES, 16, true);
        CHECK(starts[i] && starts[i][0] == 0 && starts[i][BYTES - 1] == 0, "fresh or reused, it is zero");
        starts[i][0] = starts[i][BYTES - 1] = 1;
        for (int j = 0; j < i; j++)
            if (starts[j] == starts[i]) first_reuse = i;
        heap_free(starts[i]);
        CHECK(heap_state_of(starts[i]) != zg_state_live, "freed");
    }
    CHECK(first_reuse >= 4000, "thousands of retired addresses before the first is used again");
    CHECK(zg_stats_get(zg_counter_retired_blocks) <= 4096, "and no more of them than the system allows mappings");
}

int main(void) {
    setenv("ZGUARD_OPTIONS", "on_finding=continue:report_path=/dev/null:isolated_per_context=0:quarantine_bytes=1000k",
           1);
    zg_runtime_start();
    if (!CHECK(zg_ready(), "the runtime starts")) return check_end();
    check_states();
    check_slots();
    check_spans();
    check_put_off();
    check_retired();
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++)
        CHECK(zg_slab_is_valid(&zg_slabs.slab[class]), "slabs are valid");
    CHECK(zg_stats_get(zg_counter_heap_committed_bytes) < UINT64_C(1) << 40, "the count of committed bytes is sane");
    return check_end();
}
