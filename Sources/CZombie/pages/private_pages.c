// Allocates and retires blocks with private pages.
// Slow path; takes the lock of private pages.

#include "pages/private_pages.h"

#include "blocks/fill.h"
#include "pages/conditions.h"
#include "pages/exact_ends.h"
#include "pages/private_state.h"
#include "pages/protect.h"
#include "platform/os.h"
#include "platform/unaligned.h"
#include "pressure/pressure.h"
#include "settings/coverage.h"
#include "settings/stats.h"
#include "stacks/depot.h"

// --- memory ---------------------------------------------------------------------------------------------------------

bool zg_private_has_room(uint64_t size, bool first) {
    enum zg_coverage_reason reason;
    uint64_t bytes = zg_round_up(size, ZG_PAGE_BYTES);
    if (zg_load(&zg_private.live_bytes) + bytes <= zg_conditions_memory_most(first, &reason)) return true;
    if (first) zg_coverage_declined(reason);
    return false;
}

bool zg_private_is_affordable(bool is_first) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    return zg_policy_is_affordable(&conditions, zg_load(&zg_private.live_bytes), zg_load(&zg_private.small_bytes),
                                   is_first);
}

// Adds `bytes` (negative when the block is freed) to the sums for live blocks.
static void count_live(uint64_t size, int64_t bytes) {
    __atomic_fetch_add(&zg_private.live_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    if (zg_policy_is_small(size)) __atomic_fetch_add(&zg_private.small_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

// --- allocation -----------------------------------------------------------------------------------------------------

// Counts the reason why a block gets no private pages.
static bool decline(enum zg_coverage_reason reason) {
    zg_coverage_declined(reason);
    return false;
}

// Returns the alignment of the block's end. This is the alignment that the program asked for; without one,
// isolated_align and, for a focused context, zg_focus_exact_end decide.
static uint64_t end_alignment(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context,
                              enum zg_focus focus) {
    static const uint8_t bytes[] = {[zg_isolated_align_auto] = 16,
                                    [zg_isolated_align_16] = 16,
                                    [zg_isolated_align_8] = 8,
                                    [zg_isolated_align_1] = 1};
    if (alignment > 16 || zg_family_is_aligned(family)) return alignment;
    uint64_t end = bytes[zg_config.isolated_align];
    if (focus == zg_focus_exact_end && size) end = zg_min(zg_exact_end_focused_alignment(size, context), end);
    else if (zg_config.isolated_align == zg_isolated_align_auto) return zg_exact_end_alignment(size, family, context);
    if (end < 16) zg_unaligned_prepare(); // keep this alignment even if the preparation fails: the user asked for it
    return end;
}

static bool is_start_due(uint32_t context, enum zg_focus focus) {
    if (focus != zg_focus_none) return focus == zg_focus_start;
    uint8_t turn = __atomic_fetch_add(&zg_private.turns[context % ZG_DEPOT_PLACES], 1, __ATOMIC_RELAXED);
    return zg_policy_stands_at_start(turn);
}

// Takes a range for the block, and the mappings that the range needs. If memory, mappings or address space do not
// suffice, counts the reason and returns false.
static bool take_range(struct zg_private_range *range, uint64_t size, uint64_t alignment, bool is_focused) {
    uint64_t bytes = zg_round_up(size, ZG_PAGE_BYTES), pages = bytes / ZG_PAGE_BYTES + 1;
    enum zg_coverage_reason reason;
    uint64_t most = is_focused ? zg_conditions_focus_most(&reason) : zg_conditions_memory_most(true, &reason);
    if (zg_load(&zg_private.live_bytes) + bytes > most) return decline(reason);
    range->by_mapping = size && (zg_private_keeps_contents() || zg_protection_now() == zg_protection_mprotect);
    if (range->by_mapping && !zg_private_take_mappings()) return decline(zg_coverage_reason_mappings);
    zg_lock_take(&zg_private.lock);
    zg_private_take_range(range, pages, alignment, size != 0);
    struct zg_span *span = range->span;
    if (span) {
        count_live(size, (int64_t)bytes);
        zg_private_enter_chunks(span);
        // A fresh range may begin a new chunk. The previous chunk then gets no more blocks, and is closed if all of its
        // blocks are freed.
        if (range->is_fresh && zg_private_first_chunk(span)) zg_private_close_chunk(zg_private_first_chunk(span) - 1);
    }
    zg_lock_drop(&zg_private.lock);
    if (span) return true;
    if (range->by_mapping) zg_mappings_give(2);
    return decline(zg_coverage_reason_address_space);
}

// Places the block at the end or the start of its pages, and fills the red zones.
static void place_block(struct zg_span *span, uint64_t size, uint64_t alignment, enum zg_alloc_family family,
                        uint32_t context, enum zg_focus focus) {
    zg_store(&span->size, size);
    span->dirty = 0;
    span->guard_is_open = 0;
    uint64_t end = zg_private_data_end(span),
             start = end - zg_round_up(size, end_alignment(size, alignment, family, context, focus));
    if (alignment > ZG_PAGE_BYTES || (is_start_due(context, focus) && !zg_private_may_use_pages(size, family)))
        start = span->base;
    zg_store(&span->start, start);
    uint64_t lead = zg_private_lead_bytes(span);
    __builtin_memset((char *)start - lead, ZG_FILL_GAP, lead);
    __builtin_memset((char *)start + size, ZG_FILL_GAP, end - start - size);
}

struct zg_span *zg_private_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context,
                                    enum zg_focus focus) {
    uint64_t area_quarter = zg_isolated_map.units * ZG_PAGE_BYTES / 4;
    if (size > area_quarter || alignment > area_quarter) return decline(zg_coverage_reason_address_space), NULL;
    struct zg_private_range range = {.span = NULL};
    if (!take_range(&range, size, alignment, focus != zg_focus_none)) return NULL;
    struct zg_span *span = range.span;
    if (!zg_private_open_range(&range)) {
        if (range.by_mapping) zg_mappings_give(2);
        // It is unknown which pages have guards, so the range is never used again.
        if (span->protection == zg_protection_guards) zg_protection_give_up_guards();
        count_live(size, -(int64_t)zg_private_data_bytes(span));
        return decline(zg_coverage_reason_refused), NULL;
    }
    zg_pressure_note_taken(zg_private_data_bytes(span));
    place_block(span, size, alignment, family, context, focus);
    zg_stats_add(zg_counter_fenced_blocks, 1);
    zg_stats_set(zg_counter_fenced_live_bytes, zg_load(&zg_private.live_bytes));
    return span;
}

void zg_private_open_guard(struct zg_span *span) {
    zg_lock_take(&zg_private.lock);
    bool is_live = zg_header_state(__atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE)) == zg_state_live;
    const volatile char *guard = (const char *)zg_private_data_end(span);
    if (is_live && span->protection == zg_protection_guards && !span->guard_is_open)
        span->guard_is_open = zg_os_unguard((void *)guard, ZG_PAGE_BYTES) == 0;
    // Read a byte to map the kernel's zero page: masked loads from an unmapped page would be as slow as from a
    // protected page.
    if (is_live && span->guard_is_open) (void)*guard;
    zg_lock_drop(&zg_private.lock);
}

// --- retiring -------------------------------------------------------------------------------------------------------

// Protects the page of a block of 0 bytes. The page is inaccessible already, unless it was opened after a finding
// (on_finding=continue). False if the kernel refuses.
static bool protect_empty(const struct zg_span *span) {
    void *page = (void *)span->base;
    if (!zg_private_keeps_contents()) return true;
    bool by_mapping = span->protection == zg_protection_mprotect;
    return (by_mapping ? zg_os_retire(page, ZG_PAGE_BYTES) : zg_os_guard(page, ZG_PAGE_BYTES)) == 0;
}

// Makes the pages inaccessible and keeps their contents. False if mappings do not suffice. `open_bytes`: size of the
// opened guard page, or 0.
static bool protect_with_contents(struct zg_span *span, uint64_t open_bytes) {
    char *data = (char *)span->base;
    uint64_t bytes = zg_private_data_bytes(span);
    span->dirty = zg_os_protect(data, bytes) == 0;
    if (span->dirty && open_bytes) zg_os_guard(data + bytes, open_bytes);
    if (!span->dirty) zg_stats_degrade(zg_degradation_no_contents);
    return span->dirty;
}

// Makes the pages inaccessible. False if the kernel refuses.
static bool protect(struct zg_span *span, enum zg_private_end end) {
    if (!zg_private_has_data(span)) return protect_empty(span);
    void *data = (void *)span->base;
    uint64_t bytes = zg_private_data_bytes(span);
    bool by_mapping = span->protection == zg_protection_mprotect, by_guards = !by_mapping && end != zg_private_unmap;
    uint64_t open_bytes = zg_private_has_open_guard(span) ? ZG_PAGE_BYTES : 0; // size of the opened guard page
    if (end == zg_private_keep && protect_with_contents(span, open_bytes)) return true;
    if (by_guards && zg_os_guard(data, bytes + open_bytes) == 0) return true;
    if (by_guards) zg_protection_give_up_guards();
    // Include the guard page, so that adjacent freed blocks merge into one mapping.
    if (zg_os_retire(data, bytes + ZG_PAGE_BYTES) != 0) return false;
    if (by_mapping && !zg_private_keeps_contents()) zg_mappings_give(2);
    span->protection = zg_protection_mprotect;
    return true;
}

bool zg_private_retire(struct zg_span *span, enum zg_private_end end) {
    zg_private_wait_for_looks();
    bool is_protected = protect(span, end);
    if (!is_protected) {
        // The pages stay accessible and are never reused. The kernel may have guarded some of them.
        void *data = (void *)span->base;
        zg_os_unguard(data, zg_private_data_bytes(span));
        if (zg_private_has_data(span)) zg_fill(data, zg_private_data_bytes(span), ZG_FILL_FREED);
        zg_stats_degrade(zg_degradation_mappings_spent);
    }
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_retired), __ATOMIC_RELEASE);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, span->units * ZG_PAGE_BYTES);
    zg_lock_take(&zg_private.lock);
    zg_private_leave_chunks(span);
    count_live(span->size, -(int64_t)zg_private_data_bytes(span));
    zg_stats_set(zg_counter_fenced_live_bytes, zg_load(&zg_private.live_bytes));
    if (is_protected) zg_private_add_retired(span);
    zg_private_keep_within_bounds();
    zg_lock_drop(&zg_private.lock);
    return is_protected;
}

void zg_private_lock(void) { zg_lock_take(&zg_private.lock); }
void zg_private_unlock(bool reset) {
    if (!reset) return zg_lock_drop(&zg_private.lock);
    zg_lock_reset(&zg_private.lock);
    zg_private_forget_lookers();
}

#ifdef ZG_CHECK_INVARIANTS
static const char *broken_bins(void (*see)(uint32_t number, bool retired)) {
    uint64_t count = 0;
    for (uint32_t pages = 0; pages <= ZG_PRIVATE_CHUNK_PAGES; pages++)
        for (uint32_t number = zg_private.bins[pages]; number; number = zg_span_by_number(number)->next) {
            if (zg_span_by_number(number)->units != pages) return "a private range is in another bin than its size's";
            if (count++ > zg_span_count()) return "a bin of private ranges has no end";
            see(number, false);
        }
    return NULL;
}

static const char *broken_retired(void (*see)(uint32_t number, bool retired)) {
    uint64_t bytes = 0;
    uint32_t last = 0;
    for (uint32_t number = zg_private.retired.oldest; number; number = zg_span_by_number(number)->next) {
        bytes += zg_span_by_number(number)->units * ZG_PAGE_BYTES;
        see(number, true);
        last = number;
    }
    bool is_valid = last == zg_private.retired.newest && bytes == zg_private.retired.amount;
    return is_valid ? NULL : "the queue of retired private pages is not as it counts";
}

static const char *broken_pages(uint32_t number) {
    const struct zg_span *span = zg_span_by_number(number);
    uint64_t first = (span->base - zg_isolated_map.base) / ZG_PAGE_BYTES;
    for (uint64_t i = 0; i < span->units; i++)
        if (zg_isolated_map.numbers[first + i] != number) return "a private page leads to another block";
    if (zg_header_state(span->block.header) != zg_state_live) return NULL;
    bool is_inside = span->start >= span->base && span->start + span->size <= zg_private_data_end(span);
    return is_inside ? NULL : "a block lies outside of its private pages";
}

const char *zg_private_broken(void (*see)(uint32_t number, bool retired)) {
    const char *broken = broken_bins(see);
    if (!broken) broken = broken_retired(see);
    uint64_t live = 0;
    for (uint32_t number = 1; number < zg_span_count() && !broken; number++) {
        const struct zg_span *span = zg_span_by_number(number);
        if (!span->protection) continue;
        broken = broken_pages(number);
        if (zg_header_state(span->block.header) == zg_state_live) live += zg_private_data_bytes(span);
    }
    if (broken || live == zg_load(&zg_private.live_bytes)) return broken;
    return "private pages of live blocks take another number of bytes than is counted";
}
#endif
