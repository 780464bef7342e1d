// Spans: allocation from bins of freed ones or from fresh address space, retirement, lookup.
// Slow path; one lock. Address space is plentiful and fresh pages cost nothing, so spans are never split or joined: unit
// counts are rounded to eight steps per doubling and a freed span serves its own bin again.

#include "blocks/span.h"

#include <errno.h>

#include "pressure/pressure.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

enum { EXACT_BINS = 16, BIN_COUNT = EXACT_BINS + 8 * 44 };
// Free spans may keep this much touched memory; beyond it their pages are given back.
#define DIRTY_MOST ((uint64_t)32 << 20)
// Each retired span may cost the kernel a mapping, of which a process has 65,530 by default.
enum { RETIRED_MOST = 16384 };
// From this size on the kernel is asked whether there is as much memory (its heuristic, or its strict accounting), as libc's
// mmap would ask it: programs that try how much they get must not be given what is not there.
#define ASK_LEAST ((uint64_t)1 << 30)
// Units for which the map is made accessible at once: whole pages of it.
enum { UNIT_STEP = 16384 };

static struct zg_lock span_lock;
static uint64_t units_used;
static uint32_t bins[BIN_COUNT];
static uint64_t dirty_bytes;
static uint32_t retired_head, retired_tail, retired_count;
static uint64_t retired_bytes;

uint64_t zg_span_capacity(const struct zg_span *span) {
    return span->units * ZG_UNIT_BYTES - (span->start - span->base);
}
static uint64_t area_bytes(void) { return zg_large_map.units * ZG_UNIT_BYTES; }

// Rounds a unit count up to its bin's size and tells the bin.
static uint32_t bin_for(uint64_t *units) {
    if (*units <= EXACT_BINS) return (uint32_t)*units - 1;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(*units - 1); // 2^log < units <= 2^(log+1)
    uint64_t step = UINT64_C(1) << (log - 3);
    *units = zg_round_up(*units, step);
    return EXACT_BINS + (log - 4) * 8 + (uint32_t)((*units - 1) >> (log - 3) & 7);
}

static uint64_t touched_bytes(const struct zg_span *span) { return zg_round_up(span->size, ZG_PAGE_BYTES); }

static struct zg_span *new_span(uint64_t units) {
    if (units > zg_large_map.units - units_used) return NULL;
    if (!zg_span_map_cover(&zg_large_map, units_used + units, UNIT_STEP)) return NULL;
    struct zg_span *span = zg_span_table_add(&zg_large_map, units_used, units);
    if (span) units_used += units;
    return span;
}

// Oldest first, and only once there are too many.
static void reuse_retired(void) {
    uint64_t most = zg_min(zg_config.retired_bytes, area_bytes() / 2);
    while (retired_head && (retired_count > RETIRED_MOST || retired_bytes > most)) {
        struct zg_span *span = zg_span_by_number(retired_head);
        retired_head = span->next;
        retired_count--;
        retired_bytes -= span->units * ZG_UNIT_BYTES;
        zg_stats_add(zg_counter_retired_blocks, (uint64_t)-1);
        zg_stats_add(zg_counter_retired_bytes, -(span->units * ZG_UNIT_BYTES));
        // What the program goes on using after a finding stays where it is.
        if (span->block.header & ZG_HEADER_OPENED) continue;
        __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable),
                         __ATOMIC_RELEASE);
        uint64_t units = span->units;
        uint32_t bin = bin_for(&units);
        span->next = bins[bin];
        bins[bin] = zg_span_number(span);
    }
}

struct zg_span *zg_span_allocate(uint64_t size, uint64_t alignment, bool *zero) {
    if (size > area_bytes() || alignment > area_bytes()) return NULL;
    // A block of 0 bytes has an address of its own, too.
    uint64_t room = (size ? size : 1) + (alignment > ZG_UNIT_BYTES ? alignment - ZG_UNIT_BYTES : 0);
    uint64_t units = zg_round_up(room, ZG_UNIT_BYTES) / ZG_UNIT_BYTES;
    if (units > UINT32_MAX / 2) return NULL;
    if (size >= ASK_LEAST && !zg_os_would_give(size)) return NULL;
    zg_lock_take(&span_lock);
    uint32_t bin = bin_for(&units);
    struct zg_span *span = NULL;
    if (bins[bin]) {
        span = zg_span_by_number(bins[bin]);
        bins[bin] = span->next;
        if (span->dirty) dirty_bytes -= zg_min(dirty_bytes, touched_bytes(span));
    } else {
        span = new_span(units);
    }
    zg_lock_drop(&span_lock);
    if (!span) return NULL;
    *zero = !span->dirty;
    zg_store(&span->start, zg_round_up(span->base, alignment)); // records are looked at without the lock
    zg_stats_add(zg_counter_heap_committed_bytes, span->units * ZG_UNIT_BYTES);
    // The whole span at once: the block may grow in place. Untouched pages cost nothing.
    if (!span->dirty && zg_os_commit((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) {
        zg_pressure_note_failure();
        zg_store(&span->size, 0);
        __atomic_store_n(&span->block.header, zg_block_header(zg_state_reusable, zg_kind_malloc, 0), __ATOMIC_RELEASE);
        zg_span_release(span);
        return NULL;
    }
    if (*zero) zg_pressure_note_taken(size);
    zg_store(&span->size, size);
    span->dirty = 1;
    return span;
}

// They wait in their bins like freed ones that may hold anything.
void zg_span_open_reserve(uint32_t each) {
    for (uint32_t i = 0; i < EXACT_BINS * each; i++) {
        uint64_t units = i % EXACT_BINS + 1;
        uint32_t bin = bin_for(&units);
        zg_lock_take(&span_lock);
        struct zg_span *span = new_span(units);
        zg_lock_drop(&span_lock);
        if (!span) return;
        zg_store(&span->start, span->base);
        zg_store(&span->size, 0);
        __atomic_store_n(&span->block.header, zg_block_header(zg_state_reusable, zg_kind_malloc, 0), __ATOMIC_RELEASE);
        span->dirty = zg_os_commit((void *)span->base, units * ZG_UNIT_BYTES) == 0;
        zg_lock_take(&span_lock);
        span->next = bins[bin];
        bins[bin] = zg_span_number(span);
        zg_lock_drop(&span_lock);
    }
}

void zg_span_release(struct zg_span *span) {
    zg_stats_add(zg_counter_heap_committed_bytes, -(span->units * ZG_UNIT_BYTES));
    uint64_t touched = touched_bytes(span);
    zg_lock_take(&span_lock);
    bool keep = dirty_bytes + touched <= DIRTY_MOST;
    if (keep && span->dirty) dirty_bytes += touched;
    zg_lock_drop(&span_lock);
    if (!keep && zg_os_discard((void *)span->base, span->units * ZG_UNIT_BYTES) == 0) span->dirty = 0;
    uint64_t units = span->units;
    zg_lock_take(&span_lock);
    uint32_t bin = bin_for(&units);
    span->next = bins[bin];
    bins[bin] = zg_span_number(span);
    zg_lock_drop(&span_lock);
}

void zg_span_retire(struct zg_span *span) {
    uint64_t bytes = span->units * ZG_UNIT_BYTES;
    // Before its contents go: to whom looks on from outside they would have been overwritten, for as long as this thread is stopped.
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_held), __ATOMIC_RELEASE);
    if (zg_os_retire((void *)span->base, bytes) != 0) {
        zg_stats_degrade(zg_degradation_mappings_spent);
        __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable),
                         __ATOMIC_RELEASE);
        zg_span_release(span);
        return;
    }
    span->dirty = 0;
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_retired), __ATOMIC_RELEASE);
    zg_stats_add(zg_counter_heap_committed_bytes, -bytes);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, bytes);
    zg_lock_take(&span_lock);
    uint32_t number = zg_span_number(span);
    span->next = 0;
    retired_bytes += bytes;
    if (retired_count++) zg_span_by_number(retired_tail)->next = number;
    else retired_head = number;
    retired_tail = number;
    reuse_retired();
    zg_lock_drop(&span_lock);
}

enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to) {
    // What stands around a fenced block stays with its pages.
    if (from->fenced || to->fenced || from->start % ZG_PAGE_BYTES || to->start % ZG_PAGE_BYTES) return zg_span_unmoved;
    uint64_t bytes = zg_round_up(zg_min(from->size, to->size), ZG_PAGE_BYTES);
    int result = zg_os_move((void *)from->start, (void *)to->start, bytes);
    return result == 0 ? zg_span_moved : result == -EFAULT ? zg_span_lost : zg_span_unmoved;
}

uint64_t zg_span_trim(void) {
    uint64_t bytes = 0;
    zg_lock_take(&span_lock);
    for (int bin = 0; bin < BIN_COUNT; bin++)
        for (uint32_t number = bins[bin]; number; number = zg_span_by_number(number)->next) {
            struct zg_span *span = zg_span_by_number(number);
            if (!span->dirty || zg_os_discard((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) continue;
            bytes += touched_bytes(span);
            span->dirty = 0;
        }
    dirty_bytes = 0;
    zg_lock_drop(&span_lock);
    return bytes;
}

void zg_span_lock(void) { zg_lock_take(&span_lock); }
void zg_span_unlock(bool reset) {
    if (reset) zg_lock_reset(&span_lock);
    else zg_lock_drop(&span_lock);
}

#ifdef ZG_CHECK_INVARIANTS
const char *zg_span_broken(void (*span)(uint32_t number, bool retired)) {
    uint64_t count = 0, bytes = 0, units = 0;
    uint32_t last = 0;
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++)
        for (uint32_t number = bins[bin]; number; number = zg_span_by_number(number)->next) {
            uint64_t rounded = zg_span_by_number(number)->units;
            if (bin_for(&rounded) != bin || rounded != zg_span_by_number(number)->units)
                return "a span is in another bin than its size's";
            if (count++ > zg_span_count()) return "a bin has no end";
            span(number, false);
        }
    count = 0;
    for (uint32_t number = retired_count ? retired_head : 0; number && count < retired_count;
         number = zg_span_by_number(number)->next, count++)
        bytes += zg_span_by_number(number)->units * ZG_UNIT_BYTES, span(number, true), last = number;
    if (count != retired_count || bytes != retired_bytes || (last && last != retired_tail))
        return "the list of retired spans is not as it counts";
    for (uint32_t number = 1; number < zg_span_count(); number++) {
        const struct zg_span *at = zg_span_by_number(number);
        if (at->fenced) continue;
        uint64_t first = (at->base - zg_large_map.base) / ZG_UNIT_BYTES;
        units += at->units;
        for (uint64_t i = 0; i < at->units; i++)
            if (zg_large_map.numbers[first + i] != number) return "a unit of a span leads to another one";
    }
    return units == units_used ? NULL : "spans do not cover the units in use";
}
#endif
