// Fuzzes the heap against a model of every block. The input is a sequence of allocations, frees, resizings, misuses,
// trims, settings and changes of thread, on the real slabs, spans, isolated blocks, quarantine and retired pages.
//
// The fuzzer calls the heap's internal functions. ASan does not fit: the blocks lie in the heap's own reservations,
// which ASan's shadow does not cover, and the runtime reads its callers' stacks. So the fuzzer is built with UBSan and
// with the runtime's own invariant checks (process/invariants.h).
// Only one thread works. It takes on the states of several threads in turn, so that an input always has the same
// effect.

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span.h"
#include "entry/entry.h"
#include "findings/finding.h"
#include "findings/found.h"
#include "fuzz.h"
#include "heap/allocate.h"
#include "heap/quarantine.h"
#include "limits/sample.h"
#include "pages/retire.h"
#include "process/invariants.h"
#include "process/ready.h"
#include "process/runtime.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "settings/bypass.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "threads/thread.h"

enum { LIVE_MOST = 64, DEAD_MOST = 64, STATES = 3, STEPS_MOST = 400, DEPTH_MOST = 8 };
enum { SPAN_RETIRE_LEAST = 1 << 20, SPAN_RETIRE_LEAST_ALIGNED = 128 << 10 };

struct block {
    unsigned char *start;
    uint64_t size, alignment;
    struct zg_block *record; // NULL if libc allocated it
    enum zg_alloc_family family;
    uint16_t maker;
    uint8_t salt;
};

struct dead {
    uint64_t start, size;
    struct zg_block *record;
    enum zg_alloc_family family;
    uint16_t maker, freer;
    uint64_t freed_bytes; // total size of the blocks freed so far, this one included
    uint32_t relief;
    bool is_held, changed;
};

static struct block live[LIVE_MOST];
static int live_count;
static struct dead dead[DEAD_MOST];
static int dead_count, dead_next;
static struct zg_thread *states[STATES];
static uint64_t freed_bytes, cap;
static uint32_t relief; // incremented when the quarantine may have been emptied
static uint64_t blocks_before, bytes_before, findings_expected;

// --- calls from several contexts -------------------------------------------------------------------------------------

struct call {
    enum { call_allocate, call_free, call_resize, call_trim } what;
    uint64_t size, alignment;
    enum zg_alloc_family family;
    enum zg_deallocator deallocator;
    bool zero;
    void *address;
};

static __attribute__((noinline)) void *call_at(int depth, const struct call *call) {
    const uint64_t *frame = ZG_ARCH_FRAME();
    void *result = NULL;
    if (depth > 0) result = call_at(depth - 1, call);
    else if (call->what == call_allocate)
        result = zg_entry_allocate(call->size, call->alignment, call->family, call->zero, frame);
    else if (call->what == call_resize) result = zg_entry_reallocate(call->address, call->size, frame);
    else if (call->what == call_trim) zg_entry_trim(call->zero, frame);
    else zg_entry_free(call->address, call->deallocator, call->size, frame);
    __asm__ volatile("" : "+r"(result)::"memory");
    return result;
}

static uint64_t findings(void) {
    return zg_stats_get(zg_counter_findings) + zg_stats_get(zg_counter_findings_suppressed);
}

static enum zg_deallocator matching(enum zg_alloc_family family) {
    switch (family) {
    case zg_family_new: return zg_deallocator_delete;
    case zg_family_new_array: return zg_deallocator_delete_array;
    case zg_family_new_aligned: return zg_deallocator_delete_aligned;
    case zg_family_new_array_aligned: return zg_deallocator_delete_array_aligned;
    default: return zg_deallocator_free;
    }
}

static bool is_aligned_kind(enum zg_alloc_family family) {
    return family == zg_family_aligned || family == zg_family_new_aligned || family == zg_family_new_array_aligned;
}

// --- contents --------------------------------------------------------------------------------------------------------

// Visits all bytes of small blocks; of large blocks both ends and some bytes between.
static uint64_t next_offset(uint64_t offset, uint64_t size) {
    if (size <= 2048 || offset < 64 || offset + 64 >= size) return offset + 1;
    uint64_t next = offset + (size > 1 << 20 ? 1048573 : size > 65536 ? 32749 : 1021);
    return next + 64 < size ? next : size - 64;
}

static uint8_t pattern(uint8_t salt, uint64_t offset) { return (uint8_t)(salt + offset * 7 + (offset >> 8)); }

static void write_contents(const struct block *block) {
    for (uint64_t i = 0; i < block->size; i = next_offset(i, block->size)) block->start[i] = pattern(block->salt, i);
}

static void check_contents(const struct block *block) {
    for (uint64_t i = 0; i < block->size; i = next_offset(i, block->size))
        CHECK(block->start[i] == pattern(block->salt, i), "byte %" PRIu64 " of %" PRIu64, i, block->size);
}

// --- the model -------------------------------------------------------------------------------------------------------

// Returns the bytes that the statistics count for a block.
static uint64_t counted_bytes(const struct block *block) {
    if (!block->record) return 0;
    return zg_slab_contains((uint64_t)block->start)
               ? zg_class_bytes((uint32_t)(((uint64_t)block->start - zg_slabs.base) >> zg_slabs.region_shift))
               : block->size;
}

static void forget_dead(const struct zg_block *record) {
    for (int i = 0; i < dead_count; i++) {
        if (dead[i].record != record) continue;
        // The quarantine must hold the block until the quarantine's cap is exceeded.
        if (dead[i].is_held && dead[i].relief == relief)
            CHECK(freed_bytes > cap, "used again after %" PRIu64 " of %" PRIu64 " bytes", freed_bytes, cap);
        dead[i] = dead[--dead_count];
        i--;
    }
    if (dead_next > dead_count) dead_next = 0;
}

static void check_view(const struct block *block, uint64_t offset) {
    struct zg_block_view view;
    CHECK(zg_lookup_block((uint64_t)block->start + offset, &view));
    CHECK(view.start == (uint64_t)block->start && view.size == block->size && view.offset == (int64_t)offset);
    CHECK(view.state == zg_state_live && view.family == block->family && view.block == block->record);
    CHECK(view.alloc_thread == block->maker && view.alloc_stack && !view.free_stack && !view.free_thread &&
          !view.zombie);
    uint64_t frames[2];
    CHECK(zg_depot_get(view.alloc_stack, frames, 2) == 2);
}

// Checks that the first `kept` bytes at `start` still are those of the block `old`, which was resized.
static void check_kept(const unsigned char *start, const struct block *old, uint64_t kept) {
    for (uint64_t i = 0; i < kept; i = next_offset(i, old->size))
        CHECK(start[i] == pattern(old->salt, i), "byte %" PRIu64 " was not kept", i);
}

// Adds a newly allocated block to the model.
static void enter(unsigned char *start, uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                  uint8_t salt) {
    struct block *block = &live[live_count++];
    struct zg_block_view view;
    *block = (struct block){start, size, alignment, NULL, family, 0, salt};
    CHECK((uint64_t)start % alignment == 0, "%p is not aligned to %" PRIu64, (void *)start, alignment);
    bool ours = zg_lookup_is_in_heap((uint64_t)start);
    CHECK(ours || zg_bypass_mode == zg_bypass_sample, "libc served %" PRIu64 " bytes", size);
    if (ours) {
        CHECK(zg_lookup_block((uint64_t)start, &view));
        block->record = view.block;
        block->maker = view.alloc_thread;
        CHECK(view.alloc_thread == zg_thread_self->number_in_records);
        check_view(block, 0);
        CHECK(zg_entry_usable_size(start, ZG_ARCH_FRAME()) == size);
        forget_dead(view.block);
    } else {
        CHECK(zg_entry_usable_size(start, ZG_ARCH_FRAME()) >= size);
    }
    for (int i = 0; i < live_count - 1; i++) {
        uint64_t one = (uint64_t)start, other = (uint64_t)live[i].start;
        uint64_t one_end = one + (size ? size : 1), other_end = other + (live[i].size ? live[i].size : 1);
        CHECK(one >= other_end || other >= one_end, "overlaps a block in use");
    }
    if (zero)
        for (uint64_t i = 0; i < size; i = 32768 < size ? next_offset(i, size) : i + 1)
            CHECK(!start[i], "byte %" PRIu64 " is not zero", i);
    write_contents(block);
}

static void remember_dead(const struct block *block) {
    if (!block->record) return;
    struct zg_block_view view;
    CHECK(zg_lookup_block((uint64_t)block->start, &view) && view.start == (uint64_t)block->start &&
          view.size == block->size);
    CHECK(view.state != zg_state_live && view.state != zg_state_freeing && view.state != zg_state_fresh);
    CHECK(view.free_thread == zg_thread_self->number_in_records && view.free_stack);
    bool slot = zg_slab_contains((uint64_t)block->start), isolated = zg_lookup_is_isolated(&view);
    uint64_t least = is_aligned_kind(block->family) ? SPAN_RETIRE_LEAST_ALIGNED : SPAN_RETIRE_LEAST;
    bool retires = !slot && (isolated || block->size >= least);
    freed_bytes += retires ? 0 : slot ? counted_bytes(block) : block->size;
    if (retires) CHECK(view.state == zg_state_retired || view.state == zg_state_reusable);
    else if (freed_bytes <= cap) CHECK(view.state == zg_state_quarantined, "state %d", view.state);
    if (view.state == zg_state_quarantined && !view.zombie) {
        uint64_t filled = zg_min(slot ? counted_bytes(block) : block->size, zg_config.fill_freed_bytes);
        for (uint64_t i = 0; i < filled; i = next_offset(i, filled))
            CHECK(block->start[i] == ZG_FILL_FREED, "byte %" PRIu64 " is not filled", i);
    }
    for (int i = 0; i < dead_count; i++)
        if (dead[i].record == block->record) dead[i--] = dead[--dead_count];
    if (dead_next >= dead_count) dead_next = 0;
    struct dead *entry = dead_count < DEAD_MOST ? &dead[dead_count++] : &dead[dead_next++ % DEAD_MOST];
    *entry = (struct dead){(uint64_t)block->start,
                           block->size,
                           block->record,
                           block->family,
                           block->maker,
                           view.free_thread,
                           freed_bytes,
                           relief,
                           !retires && view.state == zg_state_quarantined,
                           false};
}

static void check_dead(const struct dead *entry, uint64_t offset) {
    struct zg_block_view view;
    if (!zg_lookup_block(entry->start + offset, &view)) { // the run of slots is empty, and its records were released
        CHECK(entry->relief != relief && zg_retire_is_forgotten(entry->start));
        return;
    }
    CHECK(view.block == entry->record);
    CHECK(view.start == entry->start && view.size == entry->size && view.offset == (int64_t)offset);
    CHECK(view.state != zg_state_live && view.state != zg_state_freeing && view.state != zg_state_fresh);
    CHECK(view.family == entry->family && view.alloc_thread == entry->maker && view.free_thread == entry->freer);
    CHECK(view.alloc_stack && view.free_stack);
    if (entry->is_held && entry->relief == relief && freed_bytes <= cap)
        CHECK(view.state == zg_state_quarantined, "left the quarantine after %" PRIu64 " of %" PRIu64 " bytes",
              freed_bytes, cap);
}

static void check_statistics(void) {
    uint64_t blocks = 0, bytes = 0;
    for (int i = 0; i < STATES; i++) zg_thread_flush_counters(states[i]);
    for (int i = 0; i < live_count; i++) blocks += live[i].record != NULL, bytes += counted_bytes(&live[i]);
    CHECK(zg_stats_get(zg_counter_live_blocks) == blocks_before + blocks, "%" PRIu64,
          zg_stats_get(zg_counter_live_blocks));
    CHECK(zg_stats_get(zg_counter_live_bytes) == bytes_before + bytes, "%" PRIu64, zg_stats_get(zg_counter_live_bytes));
    CHECK(zg_stats_get(zg_counter_allocations) - zg_stats_get(zg_counter_frees) ==
          zg_stats_get(zg_counter_live_blocks));
    CHECK(zg_stats_get(zg_counter_quarantined_bytes) == zg_quarantine_bytes());
    CHECK(findings() == findings_expected, "%" PRIu64 " findings, expected %" PRIu64, findings(), findings_expected);
}

static void check_invariants(void) {
    const char *broken = zg_invariants_check();
    CHECK(!broken, "%s", broken);
}

// --- steps -----------------------------------------------------------------------------------------------------------

static uint64_t size_from(struct input *input) {
    uint8_t kind = take8(input);
    // Large sizes are rare, because the kernel has to clear their pages.
    switch (kind) {
    case 0: return 0;
    case 1: return take(input, 2);
    case 2: return 20000 + take(input, 2);
    case 3: return 65536 * (1 + take8(input) % 8) - 1 + take8(input) % 3;
    case 4: return (1 << 20) - 2 + take8(input) % 4; // spans of 1 MiB or more are retired at once
    case 5: return take(input, 3) % (2 << 20);
    case 6: return take(input, 3) << 4;
    case 7: return 32768 - 8 + take8(input) % 16; // border between slots and spans
    default: break;
    }
    if (kind < 64) return (UINT64_C(1) << (4 + kind % 12)) + kind / 16 - 1; // near the limits of size classes
    return take8(input) % (8u << (kind & 7));
}

static void do_allocate(struct input *input) {
    static const enum zg_alloc_family plain[] = {zg_family_malloc, zg_family_new, zg_family_new_array,
                                                 zg_family_malloc};
    static const enum zg_alloc_family aligned[] = {zg_family_aligned, zg_family_new_aligned,
                                                   zg_family_new_array_aligned, zg_family_aligned};
    uint8_t how = take8(input);
    struct call call = {.what = call_allocate,
                        .size = size_from(input),
                        .alignment = 16,
                        .family = plain[how >> 4 & 3],
                        .zero = (how & 3) == 1};
    if ((how & 3) == 2) call.alignment = UINT64_C(16) << take8(input) % 16, call.family = aligned[how >> 4 & 3];
    unsigned char *start = call_at(how >> 2 & 7, &call);
    CHECK(start, "no memory for %" PRIu64 " bytes", call.size);
    if (zg_config.fill_new && !call.zero && zg_lookup_is_in_heap((uint64_t)start))
        for (uint64_t i = 0; i < call.size; i = next_offset(i, call.size))
            CHECK(start[i] == ZG_FILL_NEW, "byte %" PRIu64, i);
    enter(start, call.size, call.alignment, call.family, call.zero, how ^ (uint8_t)call.size);
}

static void do_fail(struct input *input) {
    static const uint64_t sizes[] = {PTRDIFF_MAX, (uint64_t)PTRDIFF_MAX + 1, UINT64_MAX, PTRDIFF_MAX - 4096,
                                     UINT64_C(1) << 47};
    struct call call = {.what = call_allocate,
                        .size = sizes[take8(input) % 5],
                        .alignment = UINT64_C(16) << take8(input) % 17,
                        .family = zg_family_malloc};
    errno = 0;
    CHECK(!call_at(0, &call) && errno == ENOMEM);
    relief++;
}

static void remove_live(int at) { live[at] = live[--live_count]; }

static void do_free(struct input *input, int at) {
    struct block block = live[at];
    struct call call = {
        .what = call_free, .address = block.start, .deallocator = matching(block.family), .size = ZG_ANY_SIZE};
    uint8_t how = take8(input);
    check_contents(&block);
    if (block.record && how & 8) {
        call.size = block.family == zg_family_malloc || is_aligned_kind(block.family) ? ZG_ANY_SIZE : block.size;
        if (block.family == zg_family_malloc) call.deallocator = zg_deallocator_free_sized, call.size = block.size;
    }
    if (block.record && (how & 0xf0) == 0xf0) { // freed by a function of another family
        call.deallocator = block.family == zg_family_new ? zg_deallocator_free : zg_deallocator_delete;
        call.size = ZG_ANY_SIZE;
        findings_expected++;
    }
    remove_live(at);
    errno = 7;
    call_at(how & 7, &call);
    CHECK(errno == 7, "free changed errno");
    remember_dead(&block);
}

static void do_resize(struct input *input, int at) {
    struct block old = live[at];
    check_contents(&old);
    if (old.family != zg_family_malloc && old.family != zg_family_aligned) return;
    struct call call = {.what = call_resize, .address = old.start, .size = size_from(input)};
    if (!call.size) call.size = 1; // realloc with size 0 frees
    uint64_t kept = zg_min(old.size, call.size);
    unsigned char *moved = call_at(take8(input) & 7, &call);
    CHECK(moved);
    remove_live(at);
    if (moved != old.start) {
        if (old.record) remember_dead(&old);
        check_kept(moved, &old, kept);
        enter(moved, call.size, 16, zg_family_malloc, false, old.salt);
        return;
    }
    // The block was resized in place: it keeps its family and its allocating thread.
    live[live_count] = old;
    live[live_count].size = call.size;
    check_kept(moved, &old, kept);
    write_contents(&live[live_count++]);
    if (old.record) check_view(&live[live_count - 1], 0);
}

static void expect_finding(const struct call *call, int depth) {
    call_at(depth, call);
    findings_expected++;
    CHECK(findings() == findings_expected, "a misuse of %p went unnoticed, or was noticed twice", call->address);
}

static void do_misuse(struct input *input) {
    static char global[64];
    char local[64];
    uint8_t how = take8(input);
    struct call call = {.what = call_free, .deallocator = zg_deallocator_free, .size = ZG_ANY_SIZE};
    if (how % 8 == 0) call.address = how & 8 ? global + 16 : local + (how >> 4);
    else if (how % 8 == 1)
        // Most of these addresses never belonged to a block.
        call.address = (void *)(zg_slabs.base + take(input, 6) % zg_slabs.bytes);
    else if (how % 8 == 2 && live_count) {
        const struct block *block = &live[how / 8 % live_count];
        if (!block->record || block->size < 2) return;
        call.address = block->start + 1 + take(input, 3) % (block->size - 1);
        expect_finding(&call, 0);
        check_view(block, 0);
        check_contents(block);
        return;
    } else if (how % 8 >= 5 && dead_count) { // a double free
        const struct dead *entry = &dead[how / 8 % dead_count];
        call.address = (void *)entry->start;
        if (how % 8 == 6) call.deallocator = matching(entry->family);
        expect_finding(&call, how & 1);
        check_dead(entry, 0);
        return;
    } else if (how % 8 == 3 && dead_count) { // a write after the free
        struct dead *entry = &dead[how / 8 % dead_count];
        struct zg_block_view view;
        if (entry->changed || !entry->size || !zg_lookup_block(entry->start, &view) ||
            view.state != zg_state_quarantined || view.zombie)
            return;
        uint64_t filled = zg_min(entry->size, zg_config.fill_freed_bytes & ~UINT64_C(15)), before = findings();
        if (!filled) return;
        entry->changed = true;
        ((unsigned char *)entry->start)[take(input, 3) % filled] ^= 0x10;
        // zg_quarantine_verify_all checks the pending and the queued blocks, so it finds the change in either case.
        zg_quarantine_verify_all("test");
        findings_expected++;
        CHECK(findings() == before + 1, "%" PRIu64 " findings for one changed byte", findings() - before);
        return;
    } else {
        call.address = (void *)(take(input, 6) | 1); // an odd address, which is never a block
    }
    struct zg_block_view view;
    if (zg_lookup_block((uint64_t)call.address, &view) && view.state == zg_state_live && view.offset == 0) return;
    expect_finding(&call, 0);
}

static void do_foreign(struct input *input) {
    uint64_t size = take8(input) * UINT64_C(37);
    unsigned char *block = malloc(size + 1);
    CHECK(block && !zg_lookup_is_in_heap((uint64_t)block));
    memset(block, 0x3c, size + 1);
    CHECK(zg_entry_usable_size(block, ZG_ARCH_FRAME()) >= size + 1);
    struct call call = {.what = call_resize, .address = block, .size = size * 2 + 1};
    if (take8(input) & 1) {
        block = call_at(0, &call);
        for (uint64_t i = 0; i < size + 1; i++) CHECK(block[i] == 0x3c);
    }
    call = (struct call){.what = call_free, .address = block, .deallocator = zg_deallocator_free, .size = ZG_ANY_SIZE};
    call_at(0, &call);
}

// A thread that starts, frees, allocates, and ends. Its magazines and its pending blocks then go to the other threads.
struct errand {
    struct block freed[6];
    int freed_count;
    uint64_t sizes[4];
    unsigned char *made[4];
    uint16_t number;
};

static void *run_errand(void *context) {
    struct errand *errand = context;
    for (int i = 0; i < errand->freed_count; i++) {
        struct call call = {.what = call_free,
                            .address = errand->freed[i].start,
                            .deallocator = matching(errand->freed[i].family),
                            .size = ZG_ANY_SIZE};
        call_at(i & 1, &call);
        remember_dead(&errand->freed[i]);
    }
    for (int i = 0; i < 4; i++) {
        struct call call = {
            .what = call_allocate, .size = errand->sizes[i], .alignment = 16, .family = zg_family_malloc};
        errand->made[i] = call_at(i & 1, &call);
        CHECK(errand->made[i]);
        enter(errand->made[i], errand->sizes[i], 16, zg_family_malloc, false, (uint8_t)i);
    }
    return NULL;
}

static void do_thread(struct input *input) {
    struct errand errand = {.freed_count = 0};
    for (int i = take8(input) % 6; i > 0 && live_count; i--) {
        int at = take8(input) % live_count;
        check_contents(&live[at]);
        errand.freed[errand.freed_count++] = live[at];
        remove_live(at);
    }
    for (int i = 0; i < 4; i++) errand.sizes[i] = take(input, 2) % 3000;
    if (live_count + 4 > LIVE_MOST) {
        for (int i = 0; i < errand.freed_count; i++) live[live_count++] = errand.freed[i];
        return;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_errand, &errand) == 0);
    pthread_join(thread, NULL);
}

static void do_reset_cap(struct input *input) {
    static const uint64_t caps[] = {1 << 20, 1 << 16, 1 << 23, 4096, 0, 1 << 18};
    cap = caps[take8(input) % 6];
    zg_quarantine_set_cap(cap);
    relief++; // invalidates the model's knowledge of blocks that were freed under another cap
}

static void do_give_back(struct input *input) {
    uint8_t how = take8(input);
    struct zg_thread *thread = states[how >> 4 & 1];
    if (how % 4 == 0) { // malloc_trim: keeps the quarantine
        struct call call = {.what = call_trim, .zero = false};
        call_at(0, &call);
        return;
    }
    relief++;
    if (how % 4 == 1) {
        struct call call = {.what = call_trim, .zero = true};
        call_at(0, &call);
        CHECK(zg_quarantine_bytes() == 0);
        return;
    }
    thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (how % 4 == 2) zg_quarantine_trim(thread, take(input, 2));
    else zg_retire_reuse(take8(input) % ZG_CLASS_COUNT);
    zg_thread_leave(thread);
}

static void set_options(struct input *input) {
    static const uint32_t fences[] = {0, 8, 1, ZG_FENCE_ALL};
    static const uint64_t fills[] = {UINT64_C(1) << 40, 64, 4096, 16},
                          retired[] = {16 << 20, 0, 1 << 20, UINT64_C(1) << 28};
    uint8_t one = take8(input), two = take8(input);
    zg_config.isolated_per_context = fences[one & 3];
    zg_config.fill_freed_bytes = fills[one >> 2 & 3];
    zg_config.fill_new = one >> 4 & 1;
    zg_config.retired_bytes = retired[two & 3];
    zg_bypass_mode = two >> 2 & 1 && (one & 3) != 3 && !(one >> 5) ? zg_bypass_sample : zg_bypass_none;
    zg_allocate_init();
}

static void *park(void *where) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    zg_thread_leave(thread);
    __atomic_store_n((struct zg_thread **)where, thread, __ATOMIC_RELEASE);
    for (;;) pause();
}

int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    // Windows are off: the records of their blocks disappear together with their addresses, so the model could not
    // check them. Tests/Runtime/windows.c tests windows.
    setenv(
        "ZGUARD_OPTIONS",
        "isolated_windows=off:report_path=/dev/null:pressure=0:overread_ms=0:isolated_overhead=100%:dealloc_mismatch=all:handle_signals=0:stats=0",
        0);
    zg_runtime_start();
    CHECK(zg_ready());
    zg_found_never_abort(true);
    states[0] = zg_thread_self;
    for (int i = 1; i < STATES; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, park, &states[i]) == 0);
        while (!__atomic_load_n(&states[i], __ATOMIC_ACQUIRE)) sched_yield();
        states[i]->stack = states[0]->stack;
    }
    return 0;
}

static void step(struct input *input) {
    uint8_t what = take8(input);
    int at = live_count ? take8(input) % live_count : 0;
    switch (what % 24) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        if (live_count < LIVE_MOST) do_allocate(input);
        else do_free(input, at);
        return;
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
        if (live_count) do_free(input, at);
        return;
    case 14:
    case 15:
    case 16:
        if (live_count) do_resize(input, at);
        return;
    case 17: zg_thread_self = states[take8(input) % STATES]; return;
    case 18: do_misuse(input); return;
    case 19:
        if (live_count && live[at].record) check_view(&live[at], live[at].size ? take(input, 3) % live[at].size : 0);
        if (dead_count)
            check_dead(&dead[at % dead_count],
                       dead[at % dead_count].size ? take(input, 2) % dead[at % dead_count].size : 0);
        return;
    case 20: do_give_back(input); return;
    case 21:
        if (what < 48) do_thread(input);
        else if (what < 96) do_foreign(input);
        else do_fail(input);
        return;
    case 22: do_reset_cap(input); return;
    case 23:
        check_statistics();
        if (what > 200) check_invariants();
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    struct input input = {data, data + count};
    struct zg_thread *self = zg_thread_self;
    for (int i = 0; i < STATES; i++) zg_thread_flush_counters(states[i]);
    blocks_before = zg_stats_get(zg_counter_live_blocks), bytes_before = zg_stats_get(zg_counter_live_bytes);
    findings_expected = findings();
    live_count = dead_count = dead_next = 0;
    freed_bytes = 0, relief = 0;
    cap = zg_config.quarantine_bytes;
    zg_quarantine_set_cap(cap);
    set_options(&input);
    for (int i = 0; i < STEPS_MOST && input.at < input.end; i++) step(&input);
    for (int i = 0; i < dead_count; i++) check_dead(&dead[i], 0);
    check_statistics();
    // Do not check after each input: the checks visit every slot that was ever used.
    if (count % 8 == 0) check_invariants();
    // Free all blocks, so that the next input starts without any.
    while (live_count) {
        struct input none = {data, data};
        do_free(&none, live_count - 1);
    }
    for (int i = 0; i < STATES; i++) {
        zg_thread_self = states[i];
        struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
        zg_quarantine_trim(thread, 0);
        zg_thread_leave(thread);
    }
    zg_thread_self = self;
    CHECK(zg_quarantine_bytes() == 0);
    check_statistics();
    zg_bypass_mode = zg_bypass_none;
    return 0;
}
