// Fenced blocks: the area and its pages.

#include "pages/fence.h"

#include "blocks/fill.h"
#include "blocks/lookup.h"
#include "blocks/span_table.h"
#include "pages/protect.h"
#include "platform/lock.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/stats.h"
#include "stacks/depot.h"

enum {
    CHUNK_PAGES = ZG_FENCE_REUSED_MOST, // one page of the kernel's page tables
    CHUNKS = 1 << 19,
    CLOSED = 0xffff, // of a chunk's count: one inaccessible mapping
    CLOSED_RUNS_MOST = 400,
    REOPENED_LEAST = 128,
    MAP_STEP = 1 << 16, // pages for which the map is made accessible at once
    REUSED_AT_ONCE = 64,
    LEAD_MOST = ZG_LEAD_MOST, // also of an open guard behind a block
};
// Address space is made accessible in steps, because each is a system call.
#define COMMIT_STEP ((uint64_t)4 << 20)
#define SHARE_LEAST ((uint64_t)4 << 20)
enum { SHARE_SHIFT = 3 };
// The same where memory is narrow. Several processes of a group may have these.
#define NARROW_LEAST ((uint64_t)256 << 10)
enum { NARROW_SHIFT = 5 };
// What records of dead blocks may take: this much, or this share of what is in use.
#define RECORDS_LEAST ((uint64_t)2 << 20)
enum { RECORDS_SHIFT = 3 };
// Pages of blocks that could have windows: this much, or this share of what is in use. Where all blocks are fenced, pages of any.
#define AFFORDABLE_LEAST ((uint64_t)2 << 20)
#define SMALL_LEAST ((uint64_t)1 << 20)
enum { SMALL_SHIFT = 6 };

static struct zg_lock fence_lock;
static uint64_t used_pages, committed_pages;
static uint32_t bins[CHUNK_PAGES + 1];
// Blocks in use that have a part in each chunk. Chunks beyond these many are never closed.
static uint16_t *alive;
static uint16_t *opened;                    // blocks in use of a closed chunk: each is a mapping of its own
static uint32_t closed_runs;                // of chunks side by side: two mappings each
static uint8_t *too_soon;                   // blocks until a chunk that was opened again may be closed again
static uint32_t retired_head, retired_tail; // span numbers, oldest first
static uint64_t retired_bytes, retired_count, live_bytes;
static uint64_t small_bytes; // of those in use, the pages of blocks that leave half of them empty

static uint8_t *turns; // of contexts, ZG_DEPOT_PLACES: blocks so far, the lower bits

bool zg_fence_init(void) {
    char *tables = zg_os_map_for_good(CHUNKS * (sizeof *alive + sizeof *opened + sizeof *too_soon) +
                                      ZG_DEPOT_PLACES * sizeof *turns);
    if (!tables) return false;
    alive = (uint16_t *)tables;
    opened = alive + CHUNKS;
    too_soon = (uint8_t *)(opened + CHUNKS);
    turns = too_soon + CHUNKS;
    return true;
}

// --- pages -------------------------------------------------------------------------------------------------------------

// With on_finding=continue contents are kept behind a mapping of their own. The two that this costs are taken when the block is
// made, and given back when its addresses are used again: without them the program could not go on after a finding.
static bool keeps_contents(void) { return zg_config.on_finding == zg_on_finding_continue; }

// A block of 0 bytes has a page that nobody may touch, and no other.
static bool has_data(const struct zg_span *span) { return span->units > 1; }

// Makes the next pages accessible, up to `end`. Under the lock.
static bool commit(uint64_t end) {
    if (end > zg_isolated_map.units) return false;
    if (!zg_span_map_cover(&zg_isolated_map, end, MAP_STEP)) return false;
    if (zg_protection_now() == zg_protection_mprotect || end <= committed_pages) return true;
    uint64_t from = zg_max(committed_pages, used_pages);
    uint64_t to = zg_min(zg_round_up(end, COMMIT_STEP / ZG_PAGE_BYTES), zg_isolated_map.units);
    if (zg_os_commit((void *)(zg_isolated_map.base + from * ZG_PAGE_BYTES), (to - from) * ZG_PAGE_BYTES) != 0)
        return false;
    committed_pages = to;
    return true;
}

// A range that was never used: its record, or NULL. `*skip` gets the pages in front that alignment leaves out. Under the lock.
static struct zg_span *take_fresh(uint64_t pages, uint64_t alignment, uint64_t *skip) {
    enum zg_protection protection = zg_protection_now();
    // Without guards any more: only addresses that were never accessible are protected.
    if (protection == zg_protection_mprotect) used_pages = zg_max(used_pages, committed_pages);
    uint64_t first = used_pages ? used_pages : 1; // the first page of all guards the first block
    uint64_t address = zg_isolated_map.base + first * ZG_PAGE_BYTES;
    if (alignment > ZG_PAGE_BYTES) first += (zg_round_up(address, alignment) - address) / ZG_PAGE_BYTES;
    // What fits into one chunk lies in one chunk.
    else if (pages <= CHUNK_PAGES && first / CHUNK_PAGES != (first + pages - 1) / CHUNK_PAGES)
        first = zg_round_up(first, CHUNK_PAGES);
    if (!commit(first + pages)) return NULL;
    struct zg_span *span = zg_span_table_add(&zg_isolated_map, first, pages);
    if (!span) return NULL;
    *skip = first - used_pages;
    used_pages = first + pages;
    span->fenced = protection;
    return span;
}

// --- chunks: where every block is dead, one mapping instead of guards, whose page tables each fork would copy ----------

static uint64_t first_chunk(const struct zg_span *span) {
    return (span->base - zg_isolated_map.base) / ZG_PAGE_BYTES / CHUNK_PAGES;
}
static uint64_t last_chunk(const struct zg_span *span) {
    return ((span->base - zg_isolated_map.base) / ZG_PAGE_BYTES + span->units - 1) / CHUNK_PAGES;
}

// Of the blocks that lie in the chunk; larger ones are not opened again.
static void set_protection(uint64_t chunk, enum zg_protection protection) {
    for (uint64_t page = chunk * CHUNK_PAGES; page < (chunk + 1) * CHUNK_PAGES; page++) {
        uint32_t number = zg_isolated_map.numbers[page];
        if (number) zg_span_by_number(number)->fenced = protection;
    }
}

// Closed chunks side by side are one mapping.
static int closed_neighbours(uint64_t chunk) {
    return (chunk && alive[chunk - 1] == CLOSED) + (chunk + 1 < CHUNKS && alive[chunk + 1] == CLOSED);
}

// Under the lock.
static void close_chunk(uint64_t chunk) {
    if (chunk >= CHUNKS || alive[chunk] || too_soon[chunk] || (chunk + 1) * CHUNK_PAGES > used_pages) return;
    if (zg_protection_now() != zg_protection_guards || keeps_contents()) return;
    int joins = closed_neighbours(chunk);
    if (!joins && (closed_runs >= CLOSED_RUNS_MOST || !zg_mappings_take(2))) return;
    if (zg_os_retire((void *)(zg_isolated_map.base + chunk * CHUNK_PAGES * ZG_PAGE_BYTES),
                     CHUNK_PAGES * ZG_PAGE_BYTES) != 0) {
        if (!joins) zg_mappings_give(2);
        return;
    }
    if (joins == 2) zg_mappings_give(2);
    closed_runs += 1 - (uint32_t)joins;
    alive[chunk] = CLOSED;
    set_protection(chunk, zg_protection_mprotect);
}

// An address in it is to be used again: guards for all its pages, instead of two mappings for each block. Under the lock.
static bool reopen_chunk(uint64_t chunk) {
    void *start = (void *)(zg_isolated_map.base + chunk * CHUNK_PAGES * ZG_PAGE_BYTES);
    int joins = closed_neighbours(chunk);
    if (zg_protection_now() != zg_protection_guards || opened[chunk]) return false;
    if (joins == 2 && (closed_runs >= CLOSED_RUNS_MOST || !zg_mappings_take(2))) return false;
    if (zg_os_commit(start, CHUNK_PAGES * ZG_PAGE_BYTES) != 0 || zg_os_guard(start, CHUNK_PAGES * ZG_PAGE_BYTES) != 0) {
        zg_os_retire(start, CHUNK_PAGES * ZG_PAGE_BYTES);
        return false;
    }
    if (!joins) zg_mappings_give(2);
    closed_runs += (uint32_t)joins - 1;
    alive[chunk] = 0;
    too_soon[chunk] = REOPENED_LEAST;
    set_protection(chunk, zg_protection_guards);
    return true;
}

// A block comes into use. Under the lock.
static void enter_chunks(const struct zg_span *span) {
    for (uint64_t chunk = first_chunk(span), last = last_chunk(span); chunk <= last && chunk < CHUNKS; chunk++)
        if (alive[chunk] == CLOSED) opened[chunk]++;
        else alive[chunk]++, too_soon[chunk] -= too_soon[chunk] != 0;
}

// It is dead. Under the lock.
static void leave_chunks(const struct zg_span *span) {
    for (uint64_t chunk = first_chunk(span), last = last_chunk(span); chunk <= last && chunk < CHUNKS; chunk++)
        if (alive[chunk] == CLOSED) opened[chunk]--;
        else if (!--alive[chunk]) close_chunk(chunk);
}

static struct zg_span *take_dead(uint64_t pages) {
    if (pages > CHUNK_PAGES || !bins[pages]) return NULL;
    struct zg_span *span = zg_span_by_number(bins[pages]);
    bins[pages] = span->next;
    return span;
}

// Under the lock.
static void give_range(struct zg_span *span) {
    if (span->units > CHUNK_PAGES) return;
    span->next = bins[span->units];
    bins[span->units] = zg_span_number(span);
}

// Opens the pages of a range for a new block, and guards what is around them.
static bool open_range(struct zg_span *span, bool fresh, uint64_t skip) {
    void *data = (void *)span->base;
    uint64_t bytes = zg_fence_data_bytes(span);
    if (!has_data(span) && (!fresh || span->fenced == zg_protection_mprotect)) return true;
    if (span->fenced == zg_protection_mprotect) {
        if (zg_os_commit(data, bytes) != 0 || (span->dirty && zg_os_discard(data, bytes) != 0)) return false;
        // It reaches into two chunks, of which the other one may have been opened again, with guards.
        bool may_be_guarded = first_chunk(span) != last_chunk(span) && zg_protection_had_guards();
        return !may_be_guarded || zg_os_unguard(data, bytes) == 0;
    }
    if (fresh) {
        char *skipped = (char *)data - skip * ZG_PAGE_BYTES, *behind = (char *)data + bytes;
        return (!skip || zg_os_guard(skipped, skip * ZG_PAGE_BYTES) == 0) && zg_os_guard(behind, ZG_PAGE_BYTES) == 0;
    }
    // The program may have left its own protection behind.
    if (zg_os_commit(data, bytes) != 0 || (span->dirty && zg_os_discard(data, bytes) != 0)) return false;
    return zg_os_unguard(data, bytes) == 0;
}

static bool is_narrow;
void zg_fence_set_narrow(bool narrow) { __atomic_store_n(&is_narrow, narrow, __ATOMIC_RELAXED); }
bool zg_fence_is_narrow(void) { return __atomic_load_n(&is_narrow, __ATOMIC_RELAXED); }

uint64_t zg_fence_memory_most(bool first, enum zg_coverage_reason *limit) {
    static uint64_t half;
    uint64_t known = zg_load(&half);
    if (ZG_UNLIKELY(!known)) {
        uint64_t all = zg_os_physical_memory();
        known = all ? all / 2 : UINT64_MAX;
        zg_store(&half, known);
    }
    *limit = zg_coverage_reason_pressure;
    if (zg_stats_get(zg_counter_pressure_level)) return 0;
    if (zg_config.fence_per_context == ZG_FENCE_ALL && zg_fence_is_narrow()) return 0;
    *limit = zg_coverage_reason_memory;
    uint64_t most = zg_config.fence_bytes;
    if (zg_config.fence_per_context != ZG_FENCE_ALL &&
        most == (uint64_t)zg_option_table[zg_option_name_fence_bytes].initial) {
        bool narrow = zg_fence_is_narrow();
        uint64_t share = zg_max(narrow ? NARROW_LEAST : SHARE_LEAST,
                                zg_stats_get(zg_counter_live_bytes) >> (narrow ? NARROW_SHIFT : SHARE_SHIFT));
        most = zg_min(most, first ? 2 * share : share);
    }
    if (most >= known) return known;
    *limit = zg_coverage_reason_fence_bytes;
    return most;
}

// Says why there are no pages.
static void *decline(enum zg_coverage_reason why) {
    zg_coverage_declined(why);
    return NULL;
}

// Takes the oldest dead block out; NULL where what the program goes on using after a finding stays where it is. Under the lock.
static struct zg_span *take_oldest(void) {
    struct zg_span *span = zg_span_by_number(retired_head);
    retired_head = span->next;
    if (!retired_head) retired_tail = 0;
    uint64_t bytes = span->units * ZG_PAGE_BYTES;
    retired_bytes -= bytes;
    retired_count--;
    zg_stats_add(zg_counter_retired_blocks, (uint64_t)-1);
    zg_stats_add(zg_counter_retired_bytes, -bytes);
    return span->block.header & ZG_HEADER_CONTENTS_RESTORED ? NULL : span;
}

// Its addresses may be used again, unless contents are left that could not be dropped, and with them mappings. Under the lock.
static void reuse(struct zg_span *span) {
    if (span->dirty) return;
    if (keeps_contents() && has_data(span)) zg_mappings_give(2);
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_reusable), __ATOMIC_RELEASE);
    give_range(span);
}

// Kept contents go, and with them the mappings that they took: neighbours, whose guards lie between them, at once.
static void drop_contents(struct zg_span *const *spans, uint32_t count) {
    const struct zg_span *last = spans[count - 1];
    uint64_t from = spans[0]->base, bytes = last->base + zg_fence_data_bytes(last) - from;
    if (spans[0]->fenced == zg_protection_mprotect) {
        // With the guard behind them: one inaccessible mapping with what lies around them.
        if (zg_os_retire((void *)from, bytes + ZG_PAGE_BYTES) != 0) return;
    } else if (zg_os_guard((void *)from, bytes) != 0 || zg_os_commit((void *)from, bytes) != 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) spans[i]->dirty = 0;
}

// Of so many of the oldest dead blocks, of which contents are kept. False where there are none. Under the lock.
static bool reuse_oldest(uint64_t most) {
    struct zg_span *spans[REUSED_AT_ONCE];
    uint32_t count = 0;
    for (uint64_t i = 0; i < zg_min(most, REUSED_AT_ONCE) && retired_head; i++) {
        struct zg_span *span = take_oldest();
        if (span) spans[count++] = span;
    }
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count; to++) {
            const struct zg_span *before = spans[to - 1];
            if (before->base + before->units * ZG_PAGE_BYTES != spans[to]->base || before->fenced != spans[to]->fenced)
                break;
        }
        drop_contents(spans + from, to - from);
    }
    for (uint32_t i = 0; i < count; i++) reuse(spans[i]);
    return count != 0;
}

// Once the budget of addresses is spent, or half of the addresses there are, or records take too much memory. Under the lock.
static void keep_to_addresses(void) {
    uint64_t most = zg_min(zg_config.retired_bytes, zg_isolated_map.units * ZG_PAGE_BYTES / 2);
    // Not where the program's user says how much.
    uint64_t records = zg_max(RECORDS_LEAST, zg_stats_get(zg_counter_live_bytes) >> RECORDS_SHIFT);
    if (zg_config.retired_bytes != (uint64_t)zg_option_table[zg_option_name_retired_bytes].initial)
        records = UINT64_MAX;
    while ((retired_bytes > most || retired_count * sizeof(struct zg_span) > records) && retired_head) {
        if (keeps_contents()) {
            reuse_oldest(1 + retired_count / REUSED_AT_ONCE);
            continue;
        }
        struct zg_span *span = take_oldest();
        if (span) reuse(span);
    }
}

// The mappings for a block; where contents are kept, those of the oldest dead blocks once there are no others.
static bool take_mappings(void) {
    while (keeps_contents() && !zg_mappings_are_left(2)) {
        zg_lock_take(&fence_lock);
        bool is_some = reuse_oldest(REUSED_AT_ONCE);
        zg_lock_drop(&fence_lock);
        if (!is_some) break;
    }
    return zg_mappings_take(2);
}

bool zg_fence_has_room(uint64_t size, bool first) {
    enum zg_coverage_reason limit;
    if (zg_load(&live_bytes) + zg_round_up(size, ZG_PAGE_BYTES) <= zg_fence_memory_most(first, &limit)) return true;
    if (first) zg_coverage_declined(limit);
    return false;
}

bool zg_fence_is_affordable(void) {
    uint64_t live = zg_stats_get(zg_counter_live_bytes);
    if (zg_config.fence_per_context == ZG_FENCE_ALL) return zg_load(&live_bytes) < zg_max(AFFORDABLE_LEAST, live / 4);
    return zg_load(&small_bytes) < zg_max(SMALL_LEAST, live >> SMALL_SHIFT);
}

// Of a block in use.
static void count_live(uint64_t size, int64_t bytes) {
    __atomic_fetch_add(&live_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    if (size <= ZG_PAGE_BYTES / 2) __atomic_fetch_add(&small_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

// Where no alignment was asked for, fence_align says what the end of a block is rounded to.
static uint64_t end_alignment(uint64_t alignment, enum zg_alloc_family family) {
    static const uint8_t bytes[] = {[zg_fence_align_16] = 16, [zg_fence_align_8] = 8, [zg_fence_align_1] = 1};
    return alignment > 16 || zg_family_is_aligned(family) ? alignment : bytes[zg_config.fence_align];
}

// The program may use the pages by itself, where they are the block's alone: then it stands where it was asked to.
static bool may_be_programs(uint64_t size, enum zg_alloc_family family) {
    return zg_family_is_aligned(family) && size >= ZG_PROGRAM_PAGES_LEAST;
}

// Of each context every fourth block, from the second on, stands at the start of its pages, and what is in front of it is a guard:
// of the first eight two do, and the first never does.
enum { START_EVERY = 4, START_AT = 1 };
static bool is_start_due(uint32_t context) {
    uint8_t turn = __atomic_fetch_add(&turns[context % ZG_DEPOT_PLACES], 1, __ATOMIC_RELAXED);
    return turn % START_EVERY == START_AT;
}

struct zg_span *zg_fence_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context) {
    if (size > zg_isolated_map.units * ZG_PAGE_BYTES / 4 || alignment > zg_isolated_map.units * ZG_PAGE_BYTES / 4)
        return decline(zg_coverage_reason_address_space);
    uint64_t bytes = zg_round_up(size, ZG_PAGE_BYTES), pages = bytes / ZG_PAGE_BYTES + 1, skip = 0;
    enum zg_coverage_reason limit;
    if (zg_load(&live_bytes) + bytes > zg_fence_memory_most(true, &limit)) return decline(limit);
    bool by_mapping = size && (keeps_contents() || zg_protection_now() == zg_protection_mprotect), fresh = false;
    if (by_mapping && !take_mappings()) return decline(zg_coverage_reason_mappings);
    zg_lock_take(&fence_lock);
    struct zg_span *span = alignment <= ZG_PAGE_BYTES ? take_dead(pages) : NULL;
    if (span && size && span->fenced == zg_protection_mprotect && !by_mapping) {
        uint64_t chunk = first_chunk(span);
        bool is_closed = chunk < CHUNKS && alive[chunk] == CLOSED;
        // Not opened without the mappings that it costs.
        if (!(is_closed && reopen_chunk(chunk)) && !(by_mapping = zg_mappings_take(2))) {
            give_range(span);
            span = NULL;
        }
    }
    if (!span) {
        fresh = true;
        span = take_fresh(pages, alignment, &skip);
    }
    if (span) {
        count_live(size, (int64_t)bytes);
        enter_chunks(span);
        // The one before the frontier has all its blocks now; they may be dead already.
        if (fresh && first_chunk(span)) close_chunk(first_chunk(span) - 1);
    }
    zg_lock_drop(&fence_lock);
    if (!span || !open_range(span, fresh, skip)) {
        if (by_mapping) zg_mappings_give(2);
        if (!span) return decline(zg_coverage_reason_address_space);
        // The range is left as it is: what of it is guarded is not known.
        if (span->fenced == zg_protection_guards) zg_protection_give_up_guards();
        count_live(size, -(int64_t)bytes);
        return decline(zg_coverage_reason_refused);
    }
    zg_pressure_note_taken(bytes);
    zg_store(&span->size, size);
    span->dirty = 0;
    span->guard_is_open = 0;
    uint64_t end = span->base + bytes, start = end - zg_round_up(size, end_alignment(alignment, family));
    if (alignment > ZG_PAGE_BYTES || (is_start_due(context) && !may_be_programs(size, family))) start = span->base;
    zg_store(&span->start, start);
    uint64_t lead = zg_min(start - span->base, LEAD_MOST);
    __builtin_memset((char *)start - lead, ZG_FILL_GAP, lead);
    __builtin_memset((char *)start + size, ZG_FILL_GAP, end - start - size);
    zg_stats_add(zg_counter_fenced_blocks, 1);
    zg_stats_set(zg_counter_fenced_live_bytes, zg_load(&live_bytes));
    return span;
}

void zg_fence_open_guard(struct zg_span *span) {
    zg_lock_take(&fence_lock);
    bool is_live = zg_header_state(__atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE)) == zg_state_live;
    const volatile char *guard = (const char *)span->base + zg_fence_data_bytes(span);
    if (is_live && span->fenced == zg_protection_guards && !span->guard_is_open)
        span->guard_is_open = zg_os_unguard((void *)guard, ZG_PAGE_BYTES) == 0;
    if (is_live && span->guard_is_open)
        (void)*guard; // the kernel's page of zeros: a page that is not there is as slow as a protected one
    zg_lock_drop(&fence_lock);
}

// Of a block that is being freed: no longer opened after this answer.
static bool has_open_guard(const struct zg_span *span) {
    if (!zg_config.overread_ms) return false;
    zg_lock_take(&fence_lock);
    bool open = span->guard_is_open;
    zg_lock_drop(&fence_lock);
    return open;
}

// Whether all of it is the same byte: what is looked at may be most of a page.
static bool is_filled(const char *from, const char *to, uint8_t expected) {
    uint64_t word = UINT64_C(0x0101010101010101) * expected, changed = 0;
    for (; to - from >= 64; from += 64) {
        uint64_t words[8];
        __builtin_memcpy(words, from, sizeof words);
        for (int i = 0; i < 8; i++) changed |= words[i] ^ word;
        if (changed) return false;
    }
    for (; from < to; from++) changed |= *(const uint8_t *)from ^ expected;
    return !changed;
}

// Notes what is not `expected`; `offset` is that of `from` in the block.
static void look(const char *from, const char *to, uint8_t expected, uint64_t offset, struct zg_change *change,
                 uint64_t *last) {
    if (is_filled(from, to, expected)) return;
    for (; from < to; from++, offset++) {
        uint8_t now = *(const uint8_t *)from;
        if (now == expected) continue;
        if (!change->length) *change = (struct zg_change){.offset = offset, .old = expected, .now = now};
        change->length = 1;
        *last = offset;
    }
}

// What of the fill around the block has changed, and of the guard behind it, if that is open. Its pages can be read.
static bool find_change(const struct zg_span *span, bool guard_is_open, struct zg_change *change) {
    const char *start = (const char *)span->start, *end = (const char *)span->base + zg_fence_data_bytes(span);
    uint64_t lead = zg_min(span->start - span->base, LEAD_MOST), last = 0;
    *change = (struct zg_change){.length = 0};
    look(start + span->size, end, ZG_FILL_GAP, span->size, change, &last);
    if (guard_is_open) look(end, end + LEAD_MOST, 0, (uint64_t)(end - start), change, &last);
    if (!change->length) look(start - lead, start, ZG_FILL_GAP, -lead, change, &last);
    if (!change->length) return false;
    change->length = last - change->offset + 1;
    return true;
}

bool zg_fence_is_overrun(const struct zg_span *span, struct zg_change *change) {
    return find_change(span, has_open_guard(span), change);
}

bool zg_fence_is_programs(const struct zg_span *span, enum zg_alloc_family family) {
    return may_be_programs(span->size, family) && span->start % ZG_PAGE_BYTES == 0;
}

// --- gaps of live blocks -----------------------------------------------------------------------------------------------

// The same of a block that may have been made for its pages, which the program protects, unmaps or maps over: they are copied by the
// kernel, which says where it cannot read. Under the lock.
static bool find_change_in_copy(const struct zg_span *span, struct zg_change *change) {
    static char copy[ZG_PAGE_BYTES];
    uint64_t end = span->base + zg_fence_data_bytes(span), lead = zg_min(span->start - span->base, LEAD_MOST), last = 0;
    const uint64_t gaps[2][2] = {{span->start + span->size, end}, {span->start - lead, span->start}};
    *change = (struct zg_change){.length = 0};
    for (int i = 0; i < 2 && !change->length; i++) {
        uint64_t from = gaps[i][0], bytes = gaps[i][1] - from;
        if (!bytes || bytes > sizeof copy || zg_os_read_memory(copy, from, bytes) != bytes) continue;
        look(copy, copy + bytes, ZG_FILL_GAP, from - span->start, change, &last);
    }
    if (change->length) change->length = last - change->offset + 1;
    return change->length != 0;
}

// How many look at blocks that are in use. Whoever frees one waits, between taking it and protecting its pages, until it is not the
// one that is being looked at (wait_for_looks); and while the lock is held no address is used again.
static uint32_t lookers;

// True for whoever is the first to find a change. Under the lock.
static bool claim_change(struct zg_thread *thread, struct zg_span *span, struct zg_change *change,
                         struct zg_block_view *view) {
    uint32_t header = __atomic_load_n(&span->block.header, __ATOMIC_SEQ_CST);
    enum zg_alloc_family family = zg_header_family(header);
    if (zg_header_state(header) != zg_state_live || header & ZG_HEADER_CHANGED) return false;
    if (zg_fence_is_programs(span, family)) return false;
    bool is_changed;
    if (zg_family_is_aligned(family)) {
        is_changed = find_change_in_copy(span, change);
    } else {
        // Nobody protects a page of which he has a part. If somebody does, it is opened again.
        thread->filling_start = span->base;
        thread->filling_end = span->base + zg_fence_data_bytes(span);
        is_changed = find_change(span, span->guard_is_open, change);
        thread->filling_end = 0;
    }
    return is_changed && zg_lookup_block(span->start, view) &&
           __atomic_compare_exchange_n(&span->block.header, &header, header | ZG_HEADER_CHANGED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

uint64_t zg_fence_verify_live(struct zg_thread *thread, const char *found_by) {
    uint64_t found = 0;
    __atomic_fetch_add(&lookers, 1, __ATOMIC_SEQ_CST);
    for (uint32_t number = 1, count = zg_span_count(); number < count; number++) {
        struct zg_span *span = zg_span_by_number(number);
        struct zg_change change;
        struct zg_block_view view;
        if (!__atomic_load_n(&span->fenced, __ATOMIC_RELAXED)) continue;
        if (zg_header_state(__atomic_load_n(&span->block.header, __ATOMIC_ACQUIRE)) != zg_state_live) continue;
        zg_lock_take(&fence_lock);
        bool is_changed = claim_change(thread, span, &change, &view);
        zg_lock_drop(&fence_lock);
        if (!is_changed) continue;
        zg_found_overrun(&view, &change, found_by);
        found++;
    }
    __atomic_fetch_sub(&lookers, 1, __ATOMIC_RELEASE);
    return found;
}

// The block is no longer live: who does not see that yet has the lock.
static void wait_for_looks(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (ZG_LIKELY(!__atomic_load_n(&lookers, __ATOMIC_RELAXED))) return;
    zg_lock_take(&fence_lock);
    zg_lock_drop(&fence_lock);
}

bool zg_fence_fill_in(const struct zg_span *span, int which, uint64_t low, uint64_t high, uint64_t *from,
                      uint64_t *to) {
    uint64_t lead = zg_min(span->start - span->base, LEAD_MOST), end = span->base + zg_fence_data_bytes(span);
    *from = zg_max(low, which ? span->start + span->size : span->start - lead);
    *to = zg_min(high, which ? end : span->start);
    return *from < *to;
}

void zg_fence_fill_again(uint64_t from, uint64_t to) {
    for (const char *at = (const char *)from; at < (const char *)to; at++)
        if (*at) return;
    __builtin_memset((void *)from, ZG_FILL_GAP, to - from);
}

// Takes the pages away. False: the kernel does not let us.
static bool protect(struct zg_span *span, enum zg_fence_end end) {
    void *data = (void *)span->base;
    uint64_t bytes = zg_fence_data_bytes(span);
    bool by_mapping = span->fenced == zg_protection_mprotect;
    if (!has_data(span)) {
        // Nobody could touch it, unless it was opened after a finding.
        if (!keeps_contents()) return true;
        return (by_mapping ? zg_os_retire(data, ZG_PAGE_BYTES) : zg_os_guard(data, ZG_PAGE_BYTES)) == 0;
    }
    uint64_t open_bytes = has_open_guard(span) ? ZG_PAGE_BYTES : 0; // of the guard behind it
    if (end == zg_fence_keep) {
        span->dirty = zg_os_protect(data, bytes) == 0;
        if (span->dirty && open_bytes) zg_os_guard((char *)data + bytes, open_bytes);
        if (span->dirty) return true;
        zg_stats_degrade(zg_degradation_no_contents);
    }
    bool by_guards = !by_mapping && end != zg_fence_unmap;
    if (by_guards && zg_os_guard(data, bytes + open_bytes) == 0) return true;
    if (by_guards) zg_protection_give_up_guards();
    // With the guard behind it, so that dead neighbours become one mapping.
    if (zg_os_retire(data, bytes + ZG_PAGE_BYTES) != 0) return false;
    if (by_mapping && !keeps_contents()) zg_mappings_give(2);
    span->fenced = zg_protection_mprotect;
    return true;
}

void zg_fence_retire(struct zg_span *span, enum zg_fence_end end) {
    wait_for_looks();
    uint64_t bytes = span->units * ZG_PAGE_BYTES;
    bool is_protected = protect(span, end);
    if (!is_protected) {
        // Neither protected nor ever used again. The kernel may have got half way.
        zg_os_unguard((void *)span->base, zg_fence_data_bytes(span));
        if (has_data(span)) zg_fill((void *)span->base, zg_fence_data_bytes(span), ZG_FILL_FREED);
        zg_stats_degrade(zg_degradation_mappings_spent);
    }
    __atomic_store_n(&span->block.header, zg_header_in_state(span->block.header, zg_state_retired), __ATOMIC_RELEASE);
    zg_stats_add(zg_counter_retired_blocks, 1);
    zg_stats_add(zg_counter_retired_bytes, bytes);
    zg_lock_take(&fence_lock);
    leave_chunks(span);
    count_live(span->size, -(int64_t)zg_fence_data_bytes(span));
    zg_stats_set(zg_counter_fenced_live_bytes, zg_load(&live_bytes));
    if (is_protected) {
        uint32_t number = zg_span_number(span);
        span->next = 0;
        if (retired_tail) zg_span_by_number(retired_tail)->next = number;
        else retired_head = number;
        retired_tail = number;
        retired_bytes += bytes;
        retired_count++;
    }
    keep_to_addresses();
    zg_lock_drop(&fence_lock);
}

void zg_fence_lock(void) { zg_lock_take(&fence_lock); }
void zg_fence_unlock(bool reset) {
    if (!reset) return zg_lock_drop(&fence_lock);
    zg_lock_reset(&fence_lock);
    if (lookers) lookers = 0; // they are not in the child
}

#ifdef ZG_CHECK_INVARIANTS
const char *zg_fence_broken(void (*span)(uint32_t number, bool retired)) {
    uint64_t bytes = 0, live = 0, count = 0;
    uint32_t last = 0;
    for (uint32_t pages = 0; pages <= CHUNK_PAGES; pages++)
        for (uint32_t number = bins[pages]; number; number = zg_span_by_number(number)->next) {
            if (zg_span_by_number(number)->units != pages) return "a fenced range is in another bin than its size's";
            if (count++ > zg_span_count()) return "a bin of fenced ranges has no end";
            span(number, false);
        }
    for (uint32_t number = retired_head; number; number = zg_span_by_number(number)->next)
        bytes += zg_span_by_number(number)->units * ZG_PAGE_BYTES, span(number, true), last = number;
    if (last != retired_tail || bytes != retired_bytes) return "the list of retired fenced blocks is not as it counts";
    for (uint32_t number = 1; number < zg_span_count(); number++) {
        const struct zg_span *at = zg_span_by_number(number);
        if (!at->fenced) continue;
        uint64_t first = (at->base - zg_isolated_map.base) / ZG_PAGE_BYTES;
        for (uint64_t i = 0; i < at->units; i++)
            if (zg_isolated_map.numbers[first + i] != number) return "a page of a fenced block leads to another one";
        if (zg_header_state(at->block.header) != zg_state_live) continue;
        live += zg_fence_data_bytes(at);
        if (at->start < at->base || at->start + at->size > at->base + zg_fence_data_bytes(at))
            return "a fenced block lies outside of its pages";
    }
    return live == zg_load(&live_bytes) ? NULL : "fenced blocks in use take another number of bytes than is counted";
}
#endif
