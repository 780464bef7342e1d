// Spans: allocation from bins of freed ones or from fresh address space, retirement, lookup.
// Slow path; one lock. Address space is plentiful and fresh pages cost nothing, so spans are never split or joined: unit
// counts are rounded to eight steps per doubling and a freed span serves its own bin again, or one a little smaller.

#include "blocks/span.h"

#include <errno.h>

#include "pressure/pressure.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

enum { EXACT_BINS = 16, BIN_COUNT = EXACT_BINS + 8 * 44 };
// Free spans may keep this much touched memory, or this share of what is in use; beyond it pages are given back.
#define DIRTY_LEAST ((uint64_t)32 << 20)
#define DIRTY_SHIFT 3
// When fresh memory is about to be touched, free spans of other sizes may keep, together with it, this much, or that share. Not where what
// was given back so was wanted again, this often.
#define DIRTY_BESIDE_FRESH ((uint64_t)4 << 20)
enum { REGRETS_MOST = 8 };
// Each retired span may cost the kernel a mapping, of which a process has 65,530 by default.
enum { RETIRED_MOST = 16384 };
// So often the kernel may refuse to move pages before it is not asked any more.
enum { REFUSED_MOST = 16 };
// From this size on the kernel is asked whether there is as much memory (its heuristic, or its strict accounting), as libc's
// mmap would ask it: programs that try how much they get must not be given what is not there.
#define ASK_LEAST ((uint64_t)1 << 30)
// Units for which the map is made accessible at once: whole pages of it.
enum { UNIT_STEP = 16384 };

static struct zg_lock span_lock;
static uint64_t units_used;
// Free spans: those whose pages may hold something, and those that read as zeros. The newest first.
static uint32_t dirty_bins[BIN_COUNT], bins[BIN_COUNT];
static uint64_t dirty_bytes;      // in dirty_bins; looked at without the lock, too
static bool was_given[BIN_COUNT]; // pages of a span went back, for other ones
static uint32_t regrets;
static uint32_t refused_moves;
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

static uint64_t touched_bytes(const struct zg_span *span) { return (uint64_t)span->dirty << ZG_PAGE_SHIFT; }

// A span of fresh address space, without memory, in which no block was yet. NULL where there is none. Under the lock.
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

// NULL where the list is empty. Under the lock.
static struct zg_span *pop(uint32_t *list) {
    if (!*list) return NULL;
    struct zg_span *span = zg_span_by_number(*list);
    *list = span->next;
    return span;
}

// The same of a bin's dirty spans.
static struct zg_span *pop_dirty(uint32_t bin) {
    struct zg_span *span = pop(&dirty_bins[bin]);
    if (span) zg_store(&dirty_bytes, dirty_bytes - touched_bytes(span));
    return span;
}

// Returns the bytes that went back, 0 where the kernel refused.
static uint64_t give_back(struct zg_span *span) {
    uint64_t bytes = touched_bytes(span);
    if (!bytes || zg_os_discard((void *)span->base, span->units * ZG_UNIT_BYTES) != 0) return 0;
    span->dirty = 0;
    return bytes;
}

// A free span for blocks of this bin. Pages that are there cost nothing: those of somewhat larger spans come before a span without,
// as long as at most a quarter more has memory than is needed. Under the lock.
static struct zg_span *take(uint32_t bin, uint64_t bytes) {
    enum { LARGER = 3 };
    for (uint32_t more = 0; more <= LARGER && bin + more < BIN_COUNT; more++) {
        uint32_t *list = &dirty_bins[bin + more];
        if (!*list || (more && touched_bytes(zg_span_by_number(*list)) > bytes + bytes / 4)) continue;
        return pop_dirty(bin + more);
    }
    return pop(&bins[bin]);
}

// A free span. Under the lock.
static void push(struct zg_span *span) {
    uint64_t units = span->units;
    uint32_t *list = &(span->dirty ? dirty_bins : bins)[bin_for(&units)];
    zg_store(&dirty_bytes, dirty_bytes + touched_bytes(span));
    span->next = *list;
    *list = zg_span_number(span);
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
        push(span);
    }
}

// A dirty span whose pages are given back, one bin after the other; `for_fresh` is noted. False where there is none. Under the lock.
static bool clean_one(bool for_fresh) {
    static uint32_t hand;
    for (uint32_t looked = 0; looked < BIN_COUNT; looked++, hand = (hand + 1) % BIN_COUNT) {
        struct zg_span *span = pop_dirty(hand);
        if (!span) continue;
        bool clean = give_back(span) != 0;
        was_given[hand] |= for_fresh && clean;
        push(span);
        hand = (hand + 1) % BIN_COUNT;
        return clean;
    }
    return false;
}

// For so much more in dirty spans, at the cost of others. Under the lock.
static bool make_room(uint64_t bytes) {
    int64_t live = (int64_t)zg_stats_get(zg_counter_live_bytes);
    uint64_t most = zg_max(DIRTY_LEAST, live > 0 ? (uint64_t)live >> DIRTY_SHIFT : 0);
    if (bytes > most) return false;
    while (dirty_bytes + bytes > most)
        if (!clean_one(false)) return false;
    return true;
}

// A block gets memory that was in no use yet. A program that needs one large block after the other, each of another size, would pay
// for all of them. Under the lock.
static void make_room_for_fresh(uint32_t bin, uint64_t bytes) {
    if (was_given[bin]) regrets++;
    was_given[bin] = false;
    int64_t live = (int64_t)zg_stats_get(zg_counter_live_bytes);
    uint64_t most = zg_max(DIRTY_BESIDE_FRESH, live > 0 ? (uint64_t)live >> DIRTY_SHIFT : 0);
    while (regrets < REGRETS_MOST && dirty_bytes && dirty_bytes + bytes > most)
        if (!clean_one(true)) return;
}

// Pages that may hold something from now on.
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
    zg_store(&span->start, zg_round_up(span->base, alignment)); // records are looked at without the lock
    zg_stats_add(zg_counter_heap_committed_bytes, span->units * ZG_UNIT_BYTES);
    // The whole span at once: the block may grow in place. Untouched pages cost nothing.
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

// They wait in their bins like freed ones that may hold anything.
void zg_span_open_reserve(uint32_t each) {
    zg_lock_take(&span_lock);
    regrets = REGRETS_MOST; // what goes back could not be opened again
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
    if (!make_room(touched_bytes(span))) give_back(span);
    push(span);
    zg_lock_drop(&span_lock);
}

// Pages from `start` on become those of `to`, from its start on. Once pages have moved, they and those behind them are mappings of
// their own; where nothing has, several mappings are the program's own.
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

// Moves the pages of a dead span to another one, from which a block is made next: faulting them in again costs many times as much
// (ARCHITECTURE has figures). The kernel may refuse it: before Linux 5.7, or where the program has made several
// mappings of the range.
static void keep_pages(struct zg_span *from) {
    uint64_t touched = touched_bytes(from), bytes = from->units * ZG_UNIT_BYTES;
    if (!touched || __atomic_load_n(&refused_moves, __ATOMIC_RELAXED) >= REFUSED_MOST) return;
    // What was mapped over it is not for the next block.
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
    if (result == -EFAULT) return; // never used again
    if (moved) to->dirty = from->dirty;
    if (!from->several) __atomic_store_n(&refused_moves, result == 0 ? 0 : refused_moves + 1, __ATOMIC_RELAXED);
    if (result == 0 && zg_os_commit((void *)to->base, bytes) != 0) return; // as protected as the program had it
    zg_lock_take(&span_lock);
    push(to);
    zg_lock_drop(&span_lock);
}

void zg_span_retire(struct zg_span *span, bool movable) {
    uint64_t bytes = span->units * ZG_UNIT_BYTES;
    // Before its contents go: to whom looks on from outside they would have been overwritten, for as long as this thread is stopped.
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_held), __ATOMIC_RELEASE);
    if (movable) keep_pages(span);
    if (zg_os_retire((void *)span->base, bytes) != 0) {
        zg_stats_degrade(zg_degradation_mappings_spent);
        __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable),
                         __ATOMIC_RELEASE);
        zg_span_release(span);
        return;
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
}

enum zg_span_moved zg_span_move(struct zg_span *from, struct zg_span *to) {
    // What stands around a fenced block stays with its pages.
    if (from->fenced || to->fenced || from->start % ZG_PAGE_BYTES || to->start % ZG_PAGE_BYTES) return zg_span_unmoved;
    uint64_t bytes = zg_round_up(zg_min(from->size, to->size), ZG_PAGE_BYTES), moved;
    int result = move_pages(from, from->start, to, bytes, &moved);
    if (result == 0) {
        if (from->start - from->base + bytes >= touched_bytes(from)) from->dirty = 0; // nothing is left to keep
        return zg_span_moved;
    }
    if (result == -EFAULT) {
        uint64_t back;
        if (moved) zg_os_move_several((void *)to->start, (void *)from->start, moved, &back);
        return zg_span_lost;
    }
    // What has not moved is where it was.
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
            uint64_t given = give_back(span);
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
            if (bin_for(&rounded) != bin % BIN_COUNT || rounded != at->units)
                return "a span is in another bin than its size's";
            if (!at->dirty != (bin < BIN_COUNT)) return "a span's pages are not what its bin says";
            if (count++ > zg_span_count()) return "a bin has no end";
            touched += touched_bytes(at);
            span(number, false);
        }
    if (touched != dirty_bytes) return "another number of bytes is dirty than is counted";
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
