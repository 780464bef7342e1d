// Verifies the red zones of blocks with private pages: the fill in front of a block and behind it, and an opened guard
// page.
// Slow path; takes the lock of private pages, for one block at a time.

#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "pages/private_state.h"
#include "pages/protect.h"
#include "platform/os.h"

// --- checking the fill ----------------------------------------------------------------------------------------------

// Returns true if all bytes are `expected`. The fill may be most of a page: beyond the first 64 bytes, memcmp compares
// each byte with the byte 64 before it, as in zg_fill_is_intact.
static bool is_filled(const char *from, const char *to, uint8_t expected) {
    uint64_t word = UINT64_C(0x0101010101010101) * expected, changed = 0;
    if ((uint64_t)(to - from) >= ZG_FILL_LONG) {
        if (__builtin_memcmp(from + 64, from, (uint64_t)(to - from) - 64)) return false;
        to = from + 64;
    }
    for (uint64_t bytes; to - from >= (int64_t)sizeof bytes; from += sizeof bytes) {
        __builtin_memcpy(&bytes, from, sizeof bytes);
        changed |= bytes ^ word;
    }
    for (; from < to; from++) changed |= *(const uint8_t *)from ^ expected;
    return !changed;
}

// Part of a red zone, whose bytes must all be `expected`. `offset`: distance of `from` from the block's start.
struct red_zone {
    const char *from, *to;
    uint64_t offset;
    uint8_t expected;
};

// Stores the first changed byte in `change`, unless `change` already has a byte, and the offset of the last changed
// byte in `last`.
static void compare(struct red_zone zone, struct zg_change *change, uint64_t *last) {
    if (is_filled(zone.from, zone.to, zone.expected)) return;
    for (; zone.from < zone.to; zone.from++, zone.offset++) {
        uint8_t now = *(const uint8_t *)zone.from;
        if (now == zone.expected) continue;
        if (!change->length) *change = (struct zg_change){.offset = zone.offset, .old = zone.expected, .now = now};
        change->length = 1;
        *last = zone.offset;
    }
}

// Finds changes behind the block and in its opened guard page, or else in front of the block. The block's pages must be
// readable.
static bool find_change(const struct zg_span *span, bool guard_is_open, struct zg_change *change) {
    const char *start = (const char *)span->start, *end = (const char *)zg_private_data_end(span);
    uint64_t lead = zg_private_lead_bytes(span), last = 0;
    *change = (struct zg_change){.length = 0};
    compare((struct red_zone){start + span->size, end, span->size, ZG_FILL_GAP}, change, &last);
    if (guard_is_open)
        compare((struct red_zone){end, end + ZG_PRIVATE_LEAD_MOST, (uint64_t)(end - start), 0}, change, &last);
    if (!change->length) compare((struct red_zone){start - lead, start, -lead, ZG_FILL_GAP}, change, &last);
    if (!change->length) return false;
    change->length = last - change->offset + 1;
    return true;
}

// Finds changes behind an aligned block or in front of it. The program may have protected or unmapped the block's
// pages, or mapped others over them. So the bytes are copied by a system call, which fails instead of faulting. Under
// the lock.
static bool find_change_in_copy(const struct zg_span *span, struct zg_change *change) {
    static char copy[ZG_PAGE_BYTES];
    uint64_t lead = zg_private_lead_bytes(span), last = 0;
    const uint64_t gaps[2][2] = {{span->start + span->size, zg_private_data_end(span)},
                                 {span->start - lead, span->start}};
    *change = (struct zg_change){.length = 0};
    for (int i = 0; i < 2 && !change->length; i++) {
        uint64_t from = gaps[i][0], bytes = gaps[i][1] - from;
        if (!bytes || bytes > sizeof copy || zg_os_read_memory(copy, from, bytes) != bytes) continue;
        compare((struct red_zone){copy, copy + bytes, from - span->start, ZG_FILL_GAP}, change, &last);
    }
    if (change->length) change->length = last - change->offset + 1;
    return change->length != 0;
}

// --- freed blocks ---------------------------------------------------------------------------------------------------

bool zg_private_has_open_guard(const struct zg_span *span) {
    if (!zg_config.overread_ms) return false;
    zg_lock_take(&zg_private.lock);
    bool open = span->guard_is_open;
    zg_lock_drop(&zg_private.lock);
    return open;
}

bool zg_private_is_overrun(const struct zg_span *span, struct zg_change *change) {
    return find_change(span, zg_private_has_open_guard(span), change);
}

bool zg_private_may_be_remapped(const struct zg_span *span, enum zg_alloc_family family) {
    return zg_private_may_use_pages(span->size, family) && span->start % ZG_PAGE_BYTES == 0;
}

// --- live blocks ----------------------------------------------------------------------------------------------------

// Number of threads that verify live blocks. A thread that frees a block must not protect its pages while another
// thread reads them, so it calls zg_private_wait_for_looks first. No address is reused while the lock is held.
static uint32_t lookers;

// Verifies a live block. Returns true for the first thread that finds a change. Under the lock.
static bool claim_change(struct zg_thread *thread, struct zg_span *span, struct zg_change *change,
                         struct zg_block_view *view) {
    uint32_t header = __atomic_load_n(&span->block.header, __ATOMIC_SEQ_CST);
    enum zg_alloc_family family = zg_header_family(header);
    if (zg_header_state(header) != zg_state_live || header & ZG_HEADER_CHANGED) return false;
    if (zg_private_may_be_remapped(span, family)) return false;
    bool is_changed;
    if (zg_family_is_aligned(family)) {
        is_changed = find_change_in_copy(span, change);
    } else {
        // Read the pages directly: programs do not protect pages that they own only in part. If one does, the fault
        // handler makes the page accessible again.
        zg_thread_begin_access(thread, span->base, zg_private_data_end(span));
        is_changed = find_change(span, span->guard_is_open, change);
        zg_thread_end_access(thread);
    }
    return is_changed && zg_lookup_block(span->start, view) &&
           __atomic_compare_exchange_n(&span->block.header, &header, header | ZG_HEADER_CHANGED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

uint64_t zg_private_verify_live(struct zg_thread *thread, const char *found_by) {
    uint64_t found = 0;
    __atomic_fetch_add(&lookers, 1, __ATOMIC_SEQ_CST);
    for (uint32_t number = 1, count = zg_span_count(); number < count; number++) {
        struct zg_span *span = zg_span_by_number(number);
        struct zg_change change;
        struct zg_block_view view;
        if (!__atomic_load_n(&span->protection, __ATOMIC_RELAXED)) continue;
        if (zg_header_state(__atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE)) != zg_state_live) continue;
        zg_lock_take(&zg_private.lock);
        bool is_changed = claim_change(thread, span, &change, &view);
        zg_lock_drop(&zg_private.lock);
        if (!is_changed) continue;
        zg_found_overrun(&view, &change, found_by);
        found++;
    }
    __atomic_fetch_sub(&lookers, 1, __ATOMIC_RELEASE);
    return found;
}

// A thread that still verifies the block, because it has not seen the new state, holds the lock: taking the lock waits
// for that thread.
void zg_private_wait_for_looks(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (ZG_LIKELY(!__atomic_load_n(&lookers, __ATOMIC_RELAXED))) return;
    zg_lock_take(&zg_private.lock);
    zg_lock_drop(&zg_private.lock);
}

void zg_private_forget_lookers(void) {
    if (lookers) lookers = 0;
}

bool zg_private_red_zone(const struct zg_span *span, int which, uint64_t low, uint64_t high, struct zg_red_zone *zone) {
    zone->from = zg_max(low, which ? span->start + span->size : span->start - zg_private_lead_bytes(span));
    zone->to = zg_min(high, which ? zg_private_data_end(span) : span->start);
    return zone->from < zone->to;
}

void zg_private_fill_again(struct zg_red_zone zone) {
    for (const char *at = (const char *)zone.from; at < (const char *)zone.to; at++)
        if (*at) return;
    __builtin_memset((void *)zone.from, ZG_FILL_GAP, zone.to - zone.from);
}
