// Records which blocks the program's advice for fork (MADV_DONTFORK, MADV_WIPEONFORK) concerns, and repairs the child's
// heap after a fork. Cold; locks: see the header.
//
// The kernel keeps advice with a mapping. When a large block is freed, libc unmaps it, which drops the advice. The
// guarded heap keeps the mapping and reuses its pages. So each piece of advice is recorded with the first live blocks
// in its range. The advice ends when all recorded blocks have been freed, which the runtime notices at the next fork.
// The child lacks only the pages that the program withholds. Freed blocks in these pages are not verified in the child,
// red zones of isolated blocks are filled again, and free slots stay usable. Pages that hold only live blocks stay
// inaccessible.

#define _GNU_SOURCE
#include "process/advice.h"

#include <sys/mman.h>

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span_table.h"
#include "pages/private_pages.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "process/thread_entry.h"

enum { ADVICES = 2048, BLOCKS = 4 };

struct fork_advice {
    uint64_t start, end; // `end` is 0 if the array element is unused
    bool is_wiped;       // MADV_WIPEONFORK; false: MADV_DONTFORK
    // The first live blocks in the range
    struct {
        uint64_t start;
        uint32_t alloc_stack;
    } blocks[BLOCKS];
};

static struct fork_advice fork_advice[ADVICES];
static uint32_t used; // elements [0, used) were in use at some time; the others are unused
static struct zg_lock lock;

static uint64_t page_of(uint64_t address) { return address & ~(ZG_PAGE_BYTES - 1); }

bool zg_advice_concerns(uint64_t start, uint64_t bytes, int advice) {
    if (advice != MADV_DONTFORK && advice != MADV_DOFORK && advice != MADV_WIPEONFORK && advice != MADV_KEEPONFORK)
        return false;
    return bytes && (zg_lookup_is_in_heap(start) || zg_lookup_is_in_heap(start + bytes - 1));
}

// --- recorded advice -------------------------------------------------------------------------------------------------

// Returns the end of the slot or span that contains `address`. If neither does, returns the end of the address's page.
static uint64_t end_of(uint64_t address) {
    uint64_t index, interior;
    if (zg_slab_contains(address)) {
        const struct zg_slab *slab = zg_slab_find(address, &index, &interior);
        return address - interior + slab->slot_bytes;
    }
    const struct zg_span *span = zg_span_contains(address) ? zg_span_find(address) : NULL;
    if (!span) return page_of(address) + ZG_PAGE_BYTES;
    return span->base + span->units * (span->protection ? ZG_PAGE_BYTES : ZG_UNIT_BYTES);
}

static void note_blocks(struct fork_advice *advice) {
    int count = 0;
    struct zg_block_view view;
    for (uint64_t at = advice->start; at < advice->end && count < BLOCKS; at = end_of(at)) {
        if (!zg_lookup_block(at, &view) || view.state != zg_state_live) continue;
        advice->blocks[count].start = view.start;
        advice->blocks[count++].alloc_stack = view.alloc_stack;
    }
}

static bool is_in_use(const struct fork_advice *advice) {
    struct zg_block_view view;
    for (int i = 0; i < BLOCKS && advice->blocks[i].start; i++)
        if (zg_lookup_block(advice->blocks[i].start, &view) && view.state == zg_state_live &&
            view.alloc_stack == advice->blocks[i].alloc_stack)
            return true;
    return false;
}

// Drops advice whose blocks have all been freed: children inherit the memory again.
static void drop_expired(void) {
    for (uint32_t i = 0; i < used; i++) {
        if (!fork_advice[i].end || is_in_use(&fork_advice[i])) continue;
        zg_os_inherit((void *)fork_advice[i].start, fork_advice[i].end - fork_advice[i].start);
        fork_advice[i].end = 0;
    }
}

// Records advice. If all elements are in use, the advice is not recorded, but the kernel still applies it to the
// mapping.
static void record_advice(uint64_t start, uint64_t end, bool is_wiped) {
    for (int try = 0; try < 2; try++) {
        for (uint32_t i = 0; i < ADVICES; i++) {
            if (fork_advice[i].end) continue;
            fork_advice[i] = (struct fork_advice){.start = start, .end = end, .is_wiped = is_wiped};
            note_blocks(&fork_advice[i]);
            if (used <= i) used = i + 1;
            return;
        }
        drop_expired();
    }
}

static void remove_advice(uint64_t start, uint64_t end, bool is_wiped) {
    for (uint32_t i = 0; i < used; i++) {
        struct fork_advice *advice = &fork_advice[i], before = *advice;
        if (!advice->end || advice->is_wiped != is_wiped || advice->start >= end || advice->end <= start) continue;
        advice->end = 0;
        if (before.start < start) record_advice(before.start, start, is_wiped);
        if (end < before.end) record_advice(end, before.end, is_wiped);
    }
}

int zg_advice_apply(void *start, uint64_t bytes, int advice, int (*next)(void *, uint64_t, int)) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    if (!thread) return next(start, bytes, advice);
    zg_lock_take(&lock);
    int result = next(start, bytes, advice);
    uint64_t low = page_of((uint64_t)start), high = zg_round_up((uint64_t)start + bytes, ZG_PAGE_BYTES);
    bool is_about_wiping = advice == MADV_WIPEONFORK || advice == MADV_KEEPONFORK;
    if (result == 0) remove_advice(low, high, is_about_wiping);
    if (result == 0 && (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK))
        record_advice(low, high, is_about_wiping);
    zg_lock_drop(&lock);
    zg_thread_leave(thread);
    return result;
}

void zg_advice_fork_prepare(bool alone) {
    if (!alone) zg_lock_take(&lock);
    drop_expired();
}

void zg_advice_fork_done(bool child) {
    if (child) zg_lock_reset(&lock);
    else zg_lock_drop(&lock);
}

// --- the child -------------------------------------------------------------------------------------------------------

// Excludes a freed block from verification because its contents are lost. Returns true if the block may be written or
// handed out again, so its pages must be accessible.
static bool exclude_from_verify(struct zg_block *block) {
    switch (zg_header_state(block->header)) {
    case zg_state_live:
    case zg_state_retired: return false;
    case zg_state_freeing:
    case zg_state_quarantined:
    case zg_state_held: block->header |= ZG_HEADER_CHANGED; return true;
    default: return true;
    }
}

// Makes the pages of [from, to) accessible. Pages below `*opened` are accessible already. The rest of the hole stays
// inaccessible.
static void open_pages(uint64_t from, uint64_t to, uint64_t *opened) {
    from = zg_max(page_of(from), *opened);
    to = zg_round_up(to, ZG_PAGE_BYTES);
    if (from >= to) return;
    zg_os_commit((void *)from, to - from);
    *opened = to;
}

// Repairs the blocks in [start, end), which reads as zero or (`is_hole`) has just been mapped inaccessible.
static void repair_blocks(uint64_t start, uint64_t end, bool is_hole) {
    uint64_t opened = start, next, index, interior;
    struct zg_red_zone zone;
    for (uint64_t at = start; at < end; at = next) {
        next = zg_min(end_of(at), end);
        if (zg_slab_contains(at)) {
            const struct zg_slab *slab = zg_slab_find(at, &index, &interior);
            if (index < slab->used && !exclude_from_verify(&slab->blocks[index])) continue;
            if (is_hole && index < slab->committed) open_pages(at, next, &opened);
            continue;
        }
        struct zg_span *span = zg_span_contains(at) ? zg_span_find(at) : NULL;
        if (!span) continue;
        if (!span->protection) {
            if (exclude_from_verify(&span->block) && is_hole) open_pages(at, next, &opened);
        } else if (zg_header_state(span->block.header) == zg_state_live) {
            for (int which = 0; which < 2; which++) {
                if (!zg_private_red_zone(span, which, at, next, &zone)) continue;
                if (is_hole) open_pages(zone.from, zone.to, &opened);
                zg_private_fill_again(zone);
            }
        }
    }
}

// Bisects a partly mapped range until each part is fully mapped or a hole; maps holes inaccessible.
static void close_holes(uint64_t start, uint64_t end) {
    if (zg_os_is_mapped((void *)start, end - start)) return;
    if (zg_os_map_hole((void *)start, end - start)) {
        repair_blocks(start, end, true);
        return;
    }
    uint64_t middle = start + page_of((end - start) / 2);
    if (middle == start) return;
    close_holes(start, middle);
    close_holes(middle, end);
}

void zg_advice_after_fork_in_child(void) {
    for (uint32_t i = 0; i < used; i++) {
        if (!fork_advice[i].end) continue;
        if (fork_advice[i].is_wiped) repair_blocks(fork_advice[i].start, fork_advice[i].end, false);
        else close_holes(fork_advice[i].start, fork_advice[i].end);
    }
}
