// Spans: allocation from bins of freed spans or from fresh address space, and retirement.
// Slow path; one lock. Address space is plentiful and fresh pages cost nothing, so spans are never split or joined:
// unit counts are rounded to eight steps per doubling, and a freed span serves its own bin again or a slightly smaller
// one.

#include "blocks/span.h"

#include <errno.h>

#include "pressure/pressure.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

enum { EXACT_BINS = 16, BIN_COUNT = EXACT_BINS + 8 * 44 };
// Free spans may keep this much touched memory, or this share of the live bytes if that is more. Pages of touched
// memory beyond this limit are released.
#define DIRTY_LEAST ((uint64_t)32 << 20)
#define DIRTY_SHIFT 3
// Before a block gets fresh memory, pages of free spans are released until the touched memory of free spans and the
// fresh memory together are within this size, or within 1/2^DIRTY_SHIFT of the live bytes if that is more. Releasing
// stops for good once released memory was needed again REGRETS_MOST times.
#define DIRTY_BESIDE_FRESH ((uint64_t)4 << 20)
enum { REGRETS_MOST = 8 };
// Each retired span may cost a mapping, of which the kernel allows a process 65,530 by default.
enum { RETIRED_MOST = 16384 };
// Number of times that the kernel may refuse to move pages before the runtime stops trying.
enum { REFUSED_MOST = 16 };
// From this size on, ask the kernel whether it would grant the memory (heuristic or strict overcommit), as libc's mmap
// does: programs that probe how much memory they can get must not get more than there is.
#define ASK_LEAST ((uint64_t)1 << 30)
// Number of units by which the map grows; a multiple of a page.
enum { UNIT_STEP = 16384 };

static struct zg_lock span_lock;
static uint64_t units_used;
// Free spans, newest first: spans with pages that may be nonzero, and spans that read as zeros.
static uint32_t dirty_bins[BIN_COUNT], bins[BIN_COUNT];
static uint64_t dirty_bytes; // touched bytes of the spans in dirty_bins; also read without the lock
// For each bin: whether pages of a free span were released to make room for fresh memory.
static bool was_cleaned_for_fresh[BIN_COUNT];
static uint32_t cleaned_too_early;
static uint32_t refused_moves;
static uint32_t retired_head, retired_tail, retired_count;
static uint64_t retired_bytes;

uint64_t zg_span_capacity(const struct zg_span *span) {
    return span->units * ZG_UNIT_BYTES - (span->start - span->base);
}
static uint64_t area_bytes(void) { return zg_large_map.units * ZG_UNIT_BYTES; }

// Rounds a unit count up to the size of its bin and returns the bin.
static uint32_t bin_for(uint64_t *units) {
    if (*units <= EXACT_BINS) return (uint32_t)*units - 1;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(*units - 1); // 2^log < units <= 2^(log+1)
    uint64_t step = UINT64_C(1) << (log - 3);
    *units = zg_round_up(*units, step);
    return EXACT_BINS + (log - 4) * 8 + (uint32_t)((*units - 1) >> (log - 3) & 7);
}

static uint64_t touched_bytes(const struct zg_span *span) { return (uint64_t)span->dirty << ZG_PAGE_SHIFT; }

// Returns a span of fresh address space, without memory, or NULL. Under the lock.
static struct zg_span *new_span(uint64_t units) {
    if (units > zg_large_map.units - units_used) return NULL;
    if (!zg_span_map_cover(&zg_large_map, units_used + units, UNIT_STEP)) return NULL;
    struct zg_span *span = zg_span_table_add(&zg_large_map, units_used, units);
    if (!span) return NULL;
    units_used += units;
    zg_store(&span->start, span->base);
    __atomic_store_n(&span->block.header, zg_block_header(zg_state_reusable, zg_family_malloc, 0), __ATOMIC_RELEASE);
    return span;
}

// Returns NULL if the list is empty. Under the lock.
static struct zg_span *pop(uint32_t *list) {
    if (!*list) return NULL;
    struct zg_span *span = zg_span_by_number(*list);
    *list = span->next;
    return span;
}

// Pops a dirty span of the bin.
static struct zg_span *pop_dirty(uint32_t bin) {
    struct zg_span *span = pop(&dirty_bins[bin]);
    if (span) zg_store(&dirty_bytes, dirty_bytes - touched_bytes(span));
    return span;
}

// Returns the bytes released; 0 if no page was touched, or the kernel refuses.
static uint64_t release_pages(struct zg_span *span) {
    uint64_t bytes = touched_bytes(span);
    if (!bytes || zg_os_discard((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) return 0;
    span->dirty = 0;
    return bytes;
}

// Takes a free span for blocks of this bin; NULL if there is none. Touched pages cost no page fault, so dirty spans of
// the next larger bins are preferred to a clean span, if their touched memory exceeds `bytes` by at most a quarter.
// Under the lock.
static struct zg_span *take(uint32_t bin, uint64_t bytes) {
    enum { LARGER = 3 };
    for (uint32_t more = 0; more <= LARGER && bin + more < BIN_COUNT; more++) {
        uint32_t *list = &dirty_bins[bin + more];
        if (!*list || (more && touched_bytes(zg_span_by_number(*list)) > bytes + bytes / 4)) continue;
        return pop_dirty(bin + more);
    }
    return pop(&bins[bin]);
}

// Adds a free span to its bin. Under the lock.
static void push(struct zg_span *span) {
    uint64_t units = span->units;
    uint32_t *list = &(span->dirty ? dirty_bins : bins)[bin_for(&units)];
    zg_store(&dirty_bytes, dirty_bytes + touched_bytes(span));
    span->next = *list;
    *list = zg_span_number(span);
}

// Makes retired spans reusable, the oldest first, while there are too many.
static void reuse_retired(void) {
    uint64_t most = zg_min(zg_config.retired_bytes, area_bytes() / 2);
    while (retired_head && (retired_count > RETIRED_MOST || retired_bytes > most)) {
        struct zg_span *span = zg_span_by_number(retired_head);
        retired_head = span->next;
        retired_count--;
        retired_bytes -= span->units * ZG_UNIT_BYTES;
        zg_stats_add(zg_counter_retired_blocks, (uint64_t)-1);
        zg_stats_add(zg_counter_retired_bytes, -(span->units * ZG_UNIT_BYTES));
        // Keep a zombie retired if its saved contents were restored after a finding: the program may still use it.
        if (span->block.header & ZG_HEADER_CONTENTS_RESTORED) continue;
        __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable),
                         __ATOMIC_RELEASE);
        push(span);
    }
}

// Releases the pages of a dirty span, visiting the bins in turn. `for_fresh` sets was_cleaned_for_fresh. False if no
// pages were released. Under the lock.
static bool clean_one(bool for_fresh) {
    static uint32_t hand;
    for (uint32_t looked = 0; looked < BIN_COUNT; looked++, hand = (hand + 1) % BIN_COUNT) {
        struct zg_span *span = pop_dirty(hand);
        if (!span) continue;
        bool clean = release_pages(span) != 0;
        was_cleaned_for_fresh[hand] |= for_fresh && clean;
        push(span);
        hand = (hand + 1) % BIN_COUNT;
        return clean;
    }
    return false;
}

// Makes room for `bytes` more dirty bytes by releasing pages of other spans. False if `bytes` exceed the limit alone,
// or if too few pages can be released. Under the lock.
static bool make_room(uint64_t bytes) {
    uint64_t most = zg_max(DIRTY_LEAST, zg_stats_live_bytes() >> DIRTY_SHIFT);
    if (bytes > most) return false;
    while (dirty_bytes + bytes > most)
        if (!clean_one(false)) return false;
    return true;
}

// Call when a block gets fresh memory. Otherwise a program that needs large blocks of changing sizes one after the
// other would keep the memory of all of them. Under the lock.
static void make_room_for_fresh(uint32_t bin, uint64_t bytes) {
    if (was_cleaned_for_fresh[bin]) cleaned_too_early++;
    was_cleaned_for_fresh[bin] = false;
    uint64_t most = zg_max(DIRTY_BESIDE_FRESH, zg_stats_live_bytes() >> DIRTY_SHIFT);
    while (cleaned_too_early < REGRETS_MOST && dirty_bytes && dirty_bytes + bytes > most)
        if (!clean_one(true)) return;
}

// Records how many pages of the span may be nonzero from now on.
static void note_touched(struct zg_span *span) {
    uint64_t bytes = zg_round_up(span->start + span->size - span->base, ZG_PAGE_BYTES);
    span->dirty = (uint32_t)zg_max(span->dirty, zg_max(bytes >> ZG_PAGE_SHIFT, 1));
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
    struct zg_span *span = take(bin, room);
    if (!span) span = new_span(units);
    if (span && !span->dirty) make_room_for_fresh(bin, size);
    zg_lock_drop(&span_lock);
    if (!span) return NULL;
    *zero = !span->dirty;
    zg_store(&span->start, zg_round_up(span->base, alignment)); // the record is read without the lock
    zg_stats_add(zg_counter_heap_committed_bytes, span->units * ZG_UNIT_BYTES);
    // Commit the whole span, because the block may grow in place. Untouched pages cost nothing.
    if (!span->dirty && zg_os_commit((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) {
        zg_pressure_note_failure();
        zg_store(&span->size, 0);
        zg_span_release(span);
        return NULL;
    }
    if (*zero) zg_pressure_note_taken(size);
    zg_store(&span->size, size);
    note_touched(span);
    return span;
}

void zg_span_resize(struct zg_span *span, uint64_t size) {
    zg_store(&span->size, size);
    note_touched(span);
}

// The spans are marked as dirty, because zg_span_allocate does not commit dirty spans again.
void zg_span_open_reserve(uint32_t each) {
    zg_lock_take(&span_lock);
    cleaned_too_early = REGRETS_MOST; // stop releasing pages, which could not be committed again
    zg_lock_drop(&span_lock);
    for (uint32_t i = 0; i < EXACT_BINS * each; i++) {
        uint64_t units = i % EXACT_BINS + 1;
        bin_for(&units);
        zg_lock_take(&span_lock);
        struct zg_span *span = new_span(units);
        zg_lock_drop(&span_lock);
        if (!span) return;
        span->dirty = zg_os_commit((void *)span->base, units * ZG_UNIT_BYTES) == 0;
        zg_lock_take(&span_lock);
        push(span);
        zg_lock_drop(&span_lock);
    }
}

void zg_span_release(struct zg_span *span) {
    zg_stats_add(zg_counter_heap_committed_bytes, -(span->units * ZG_UNIT_BYTES));
    zg_lock_take(&span_lock);
    if (!make_room(touched_bytes(span))) release_pages(span);
    push(span);
    zg_lock_drop(&span_lock);
}

// Moves `bytes` bytes of pages, which begin at `start` in `from`, to the start of `to`. A span that received pages of
// another span consists of several mappings (`several`). The move fails if the program has split a span without that
// mark into several mappings.
static int move_pages(const struct zg_span *from, uint64_t start, struct zg_span *to, uint64_t bytes, uint64_t *moved) {
    int result;
    if (from->several) {
        result = zg_os_move_several((void *)start, (void *)to->start, bytes, moved);
    } else {
        result = zg_os_move((void *)start, (void *)to->start, bytes);
        *moved = result == 0 ? bytes : 0;
    }
    to->several |= *moved && (from->several || bytes < to->units * ZG_UNIT_BYTES);
    return result;
}

// Moves the pages of a freed span to another span, for the next block. Releasing the pages and faulting in new ones
// would cost many times as much (docs/design/002-large-blocks.md). The kernel may refuse: before Linux 5.7, or if the
// program has split the range into several mappings.
static void keep_pages(struct zg_span *from) {
    uint64_t touched = touched_bytes(from), bytes = from->units * ZG_UNIT_BYTES;
    if (!touched || __atomic_load_n(&refused_moves, __ATOMIC_RELAXED) >= REFUSED_MOST) return;
    // Pages that the program mapped over the span must not serve the next block.
    if (!zg_os_is_private((void *)from->base, bytes)) return;
    uint64_t units = from->units;
    struct zg_span *to = NULL;
    zg_lock_take(&span_lock);
    if (make_room(touched)) {
        to = pop(&bins[bin_for(&units)]);
        if (!to) to = new_span(units);
    }
    zg_lock_drop(&span_lock);
    if (!to) return;
    uint64_t moved = 0;
    int result = move_pages(from, from->base, to, bytes, &moved);
    if (result == -EFAULT) return; // `to` is not mapped any more: never reuse it
    if (moved) to->dirty = from->dirty;
    if (!from->several) __atomic_store_n(&refused_moves, result == 0 ? 0 : refused_moves + 1, __ATOMIC_RELAXED);
    // If this fails, the pages keep the program's protection, and the span is never reused.
    if (result == 0 && zg_os_commit((void *)to->base, bytes) != 0) return;
    zg_lock_take(&span_lock);
    push(to);
    zg_lock_drop(&span_lock);
}

bool zg_span_retire(struct zg_span *span, bool movable) {
    uint64_t bytes = span->units * ZG_UNIT_BYTES;
    // Set the state before the contents are moved away. Otherwise an observer that stops this thread here would see a
    // live block with overwritten contents.
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_held), __ATOMIC_RELEASE);
    if (movable) keep_pages(span);
    if (zg_os_retire((void *)span->base, bytes) != 0) {
        zg_stats_degrade(zg_degradation_mappings_spent);
        __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable),
                         __ATOMIC_RELEASE);
        zg_span_release(span);
        return false;
    }
    span->dirty = span->several = 0;
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
    return true;
}

enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to) {
    // The red zones of an isolated block must stay with its pages.
    if (from->protection || to->protection || from->start % ZG_PAGE_BYTES || to->start % ZG_PAGE_BYTES)
        return zg_span_unmoved;
    uint64_t bytes = zg_round_up(zg_min(from->size, to->size), ZG_PAGE_BYTES), moved;
    int result = move_pages(from, from->start, to, bytes, &moved);
    if (result == 0) {
        if (from->start - from->base + bytes >= touched_bytes(from)) from->dirty = 0; // no dirty page is left
        return zg_span_moved;
    }
    if (result == -EFAULT) {
        uint64_t back;
        if (moved) zg_os_move_several((void *)to->start, (void *)from->start, moved, &back);
        return zg_span_lost;
    }
    // Copy the bytes that were not moved.
    uint64_t rest = zg_min(from->size, to->size);
    rest -= zg_min(rest, moved);
    if (moved) __builtin_memcpy((void *)(to->start + moved), (void *)(from->start + moved), rest);
    return moved ? zg_span_moved : zg_span_unmoved;
}

uint64_t zg_span_trim(void) {
    uint64_t bytes = 0;
    zg_lock_take(&span_lock);
    for (int bin = 0; bin < BIN_COUNT; bin++) {
        uint32_t kept = 0;
        for (struct zg_span *span; (span = pop_dirty((uint32_t)bin)) != NULL;) {
            uint64_t given = release_pages(span);
            bytes += given;
            if (given) {
                push(span);
                continue;
            }
            span->next = kept;
            kept = zg_span_number(span);
        }
        for (struct zg_span *span; (span = pop(&kept)) != NULL;) push(span);
    }
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
    uint64_t count = 0, bytes = 0, units = 0, touched = 0;
    uint32_t last = 0;
    for (uint32_t bin = 0; bin < 2 * BIN_COUNT; bin++)
        for (uint32_t number = bin < BIN_COUNT ? bins[bin] : dirty_bins[bin - BIN_COUNT]; number;
             number = zg_span_by_number(number)->next) {
            const struct zg_span *at = zg_span_by_number(number);
            uint64_t rounded = at->units;
            if (bin_for(&rounded) != bin % BIN_COUNT || rounded != at->units) return "a span is in the wrong bin";
            if (!at->dirty != (bin < BIN_COUNT)) return "a dirty span is in a clean bin, or the reverse";
            if (count++ > zg_span_count()) return "a bin has no end";
            touched += touched_bytes(at);
            span(number, false);
        }
    if (touched != dirty_bytes) return "the count of dirty bytes is wrong";
    count = 0;
    for (uint32_t number = retired_count ? retired_head : 0; number && count < retired_count;
         number = zg_span_by_number(number)->next, count++)
        bytes += zg_span_by_number(number)->units * ZG_UNIT_BYTES, span(number, true), last = number;
    if (count != retired_count || bytes != retired_bytes || (last && last != retired_tail))
        return "the tail or the counts of the list of retired spans are wrong";
    for (uint32_t number = 1; number < zg_span_count(); number++) {
        const struct zg_span *at = zg_span_by_number(number);
        if (at->protection) continue;
        uint64_t first = (at->base - zg_large_map.base) / ZG_UNIT_BYTES;
        units += at->units;
        for (uint64_t i = 0; i < at->units; i++)
            if (zg_large_map.numbers[first + i] != number) return "the map entry of a span's unit names another span";
    }
    return units == units_used ? NULL : "spans do not cover the units in use";
}
#endif
