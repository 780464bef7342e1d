// Spans: allocation from bins of freed ones or from fresh address space, retirement, lookup.
// Slow path; one lock. Address space is plentiful and fresh pages cost nothing, so spans are never split or joined: unit
// counts are rounded to eight steps per doubling and a freed span serves its own bin again.

#include "heap/span.h"

#include <errno.h>

#include "heap/invariants.h"
#include "limits/pressure.h"
#include "pages/fence.h"
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
// Steps in which the tables are made accessible: whole pages of both.
enum { SPAN_STEP = 4096, UNIT_STEP = 16384 };

static struct zg_lock span_lock;
static uint64_t area_base, area_bytes, fence_bytes;
static uint32_t *unit_map; // unit -> span number, 0 for none
static uint64_t units_used, units_mapped;
static struct zg_span *spans;
static uint64_t spans_used = 1, spans_committed, spans_limit;
static uint32_t bins[BIN_COUNT];
static uint64_t dirty_bytes;
static uint32_t retired_head, retired_tail, retired_count;
static uint64_t retired_bytes;

bool zg_span_init(uint64_t bytes, uint64_t fence) {
    uint64_t units = bytes / ZG_UNIT_BYTES;
    spans_limit = zg_min(units + 1 + fence / (2 * ZG_PAGE_BYTES), UINT32_MAX);
    char *area = zg_os_reserve(bytes + ZG_UNIT_BYTES + fence);
    char *tables = zg_os_reserve(zg_round_up(units * sizeof *unit_map, ZG_PAGE_BYTES) + zg_round_up(spans_limit * sizeof *spans, ZG_PAGE_BYTES));
    if (!area || !tables) {
        if (area) zg_os_release(area, bytes + ZG_UNIT_BYTES + fence);
        if (tables) zg_os_release(tables, zg_round_up(units * sizeof *unit_map, ZG_PAGE_BYTES) + spans_limit * sizeof *spans);
        return false;
    }
    area_base = zg_round_up((uint64_t)area, ZG_UNIT_BYTES);
    area_bytes = units * ZG_UNIT_BYTES;
    fence_bytes = fence;
    zg_fence_init(area_base + area_bytes, fence);
    unit_map = (uint32_t *)tables;
    spans = (struct zg_span *)(tables + zg_round_up(units * sizeof *unit_map, ZG_PAGE_BYTES));
    zg_stats->layout.spans_base = (uint64_t)spans;
    zg_stats->layout.span_bytes = sizeof *spans;
    zg_stats->layout.spans_used = 1;
    zg_stats->layout.large = (struct zg_layout_area){area_base, area_bytes, (uint64_t)unit_map, ZG_UNIT_BYTES};
    return true;
}

void zg_span_area(uint64_t *start, uint64_t *bytes) {
    *start = area_base;
    *bytes = area_bytes + fence_bytes;
}

bool zg_span_contains(uint64_t address) { return address - area_base < area_bytes + fence_bytes; }

struct zg_span *zg_span_find(uint64_t address) {
    uint64_t unit = (address - area_base) / ZG_UNIT_BYTES;
    if (address - area_base >= area_bytes) return zg_fence_find(address);
    if (unit >= __atomic_load_n(&units_used, __ATOMIC_ACQUIRE)) return NULL;
    uint32_t number = __atomic_load_n(&unit_map[unit], __ATOMIC_ACQUIRE);
    return number ? &spans[number] : NULL;
}

uint64_t zg_span_capacity(const struct zg_span *span) {
    return span->units * ZG_UNIT_BYTES - (span->start - span->base);
}
uint32_t zg_span_number(const struct zg_span *span) { return (uint32_t)(span - spans); }
struct zg_span *zg_span_by_number(uint32_t number) { return &spans[number]; }
bool zg_span_exists(uint32_t number) { return number && number < __atomic_load_n(&spans_used, __ATOMIC_ACQUIRE); }

// Rounds a unit count up to its bin's size and tells the bin.
static uint32_t bin_for(uint64_t *units) {
    if (*units <= EXACT_BINS) return (uint32_t)*units - 1;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(*units - 1); // 2^log < units <= 2^(log+1)
    uint64_t step = UINT64_C(1) << (log - 3);
    *units = zg_round_up(*units, step);
    return EXACT_BINS + (log - 4) * 8 + (uint32_t)((*units - 1) >> (log - 3) & 7);
}

static uint64_t touched_bytes(const struct zg_span *span) { return zg_round_up(span->size, ZG_PAGE_BYTES); }

// Room for one more record. Under the lock.
static bool has_record(void) {
    if (spans_used == spans_limit) return false;
    if (spans_used < spans_committed) return true;
    uint64_t step = zg_min(SPAN_STEP, spans_limit - spans_committed);
    if (zg_os_commit(spans + spans_committed, zg_round_up(step * sizeof *spans, ZG_PAGE_BYTES)) != 0) return false;
    spans_committed += step;
    zg_stats_add(zg_counter_metadata_bytes, step * sizeof *spans);
    return true;
}

struct zg_span *zg_span_record(void) {
    struct zg_span *span = NULL;
    zg_lock_take(&span_lock);
    if (has_record()) {
        span = &spans[spans_used];
        __atomic_store_n(&spans_used, spans_used + 1, __ATOMIC_RELEASE);
        zg_store(&zg_stats->layout.spans_used, spans_used);
    }
    zg_lock_drop(&span_lock);
    return span;
}

static struct zg_span *new_span(uint64_t units) {
    if (units > area_bytes / ZG_UNIT_BYTES - units_used || !has_record()) return NULL;
    if (units_used + units > units_mapped) {
        uint64_t step = zg_min(zg_round_up(units_used + units - units_mapped, UNIT_STEP),
                               area_bytes / ZG_UNIT_BYTES - units_mapped);
        if (zg_os_commit(unit_map + units_mapped, zg_round_up(step * sizeof *unit_map, ZG_PAGE_BYTES)) != 0) return NULL;
        units_mapped += step;
        zg_stats_add(zg_counter_metadata_bytes, step * sizeof *unit_map);
    }
    uint32_t number = (uint32_t)spans_used;
    struct zg_span *span = &spans[number];
    span->base = area_base + units_used * ZG_UNIT_BYTES;
    span->units = (uint32_t)units;
    for (uint64_t i = 0; i < units; i++) __atomic_store_n(&unit_map[units_used + i], number, __ATOMIC_RELEASE);
    __atomic_store_n(&units_used, units_used + units, __ATOMIC_RELEASE);
    spans_used++;
    zg_store(&zg_stats->layout.spans_used, spans_used);
    return span;
}

// Oldest first, and only once there are too many.
static void reuse_retired(void) {
    uint64_t most = zg_min(zg_config.retired_bytes, area_bytes / 2);
    while (retired_head && (retired_count > RETIRED_MOST || retired_bytes > most)) {
        struct zg_span *span = &spans[retired_head];
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
    if (size > area_bytes || alignment > area_bytes) return NULL;
    // A block of 0 bytes has an address of its own, too.
    uint64_t room = (size ? size : 1) + (alignment > ZG_UNIT_BYTES ? alignment - ZG_UNIT_BYTES : 0);
    uint64_t units = zg_round_up(room, ZG_UNIT_BYTES) / ZG_UNIT_BYTES;
    if (units > UINT32_MAX / 2) return NULL;
    if (size >= ASK_LEAST && !zg_os_would_give(size)) return NULL;
    zg_lock_take(&span_lock);
    uint32_t bin = bin_for(&units);
    struct zg_span *span = NULL;
    if (bins[bin]) {
        span = &spans[bins[bin]];
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
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_retired),
                     __ATOMIC_RELEASE);
    zg_stats_add(zg_counter_heap_committed_bytes, -bytes);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, bytes);
    zg_lock_take(&span_lock);
    uint32_t number = zg_span_number(span);
    span->next = 0;
    retired_bytes += bytes;
    if (retired_count++) spans[retired_tail].next = number;
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
        for (uint32_t number = bins[bin]; number; number = spans[number].next) {
            struct zg_span *span = &spans[number];
            if (!span->dirty || zg_os_discard((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) continue;
            bytes += touched_bytes(span);
            span->dirty = 0;
        }
    dirty_bytes = 0;
    zg_lock_drop(&span_lock);
    return bytes;
}

void zg_span_lock(void) {
    zg_fence_lock();
    zg_lock_take(&span_lock);
}
void zg_span_unlock(bool reset) {
    zg_fence_unlock(reset);
    if (reset) zg_lock_reset(&span_lock);
    else zg_lock_drop(&span_lock);
}

#ifdef ZG_CHECK_INVARIANTS
uint32_t zg_span_count(void) { return (uint32_t)spans_used; }

const char *zg_span_broken(void (*span)(uint32_t number, bool retired)) {
    uint64_t count = 0, bytes = 0, units = 0;
    uint32_t last = 0;
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++)
        for (uint32_t number = bins[bin]; number; number = spans[number].next) {
            uint64_t rounded = spans[number].units;
            if (bin_for(&rounded) != bin || rounded != spans[number].units) return "a span is in another bin than its size's";
            if (count++ > spans_used) return "a bin has no end";
            span(number, false);
        }
    count = 0;
    for (uint32_t number = retired_count ? retired_head : 0; number && count < retired_count; number = spans[number].next, count++)
        bytes += spans[number].units * ZG_UNIT_BYTES, span(number, true), last = number;
    if (count != retired_count || bytes != retired_bytes || (last && last != retired_tail)) return "the list of retired spans is not as it counts";
    for (uint32_t number = 1; number < spans_used; number++) {
        const struct zg_span *at = &spans[number];
        if (at->fenced) continue;
        uint64_t first = (at->base - area_base) / ZG_UNIT_BYTES;
        units += at->units;
        for (uint64_t i = 0; i < at->units; i++)
            if (unit_map[first + i] != number) return "a unit of a span leads to another one";
    }
    return units == units_used ? NULL : "spans do not cover the units in use";
}
#endif
