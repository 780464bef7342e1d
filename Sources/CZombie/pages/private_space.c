// Allocates ranges of private pages, from retired addresses or from fresh ones, and makes their pages accessible.
// Slow path.

#include "pages/private_state.h"
#include "pages/protect.h"
#include "platform/os.h"

// Makes pages up to `end` accessible, in large steps because each costs a system call. Without guard pages,
// zg_private_open_range does that for each range instead. Under the lock.
static bool commit(uint64_t end) {
    if (end > zg_isolated_map.units) return false;
    if (!zg_span_map_cover(&zg_isolated_map, end, ZG_POLICY_MAP_STEP_PAGES)) return false;
    if (zg_protection_now() == zg_protection_mprotect || end <= zg_private.committed_pages) return true;
    uint64_t from = zg_max(zg_private.committed_pages, zg_private.used_pages);
    uint64_t to = zg_min(zg_round_up(end, ZG_POLICY_COMMIT_STEP_BYTES / ZG_PAGE_BYTES), zg_isolated_map.units);
    if (zg_os_commit((void *)(zg_isolated_map.base + from * ZG_PAGE_BYTES), (to - from) * ZG_PAGE_BYTES) != 0)
        return false;
    zg_private.committed_pages = to;
    return true;
}

// Takes a range that was never used. `*skip` receives the number of pages that alignment leaves unused in front of it.
// NULL if there is none. Under the lock.
static struct zg_span *take_fresh(uint64_t pages, uint64_t alignment, uint64_t *skip) {
    enum zg_protection protection = zg_protection_now();
    // Once guard pages have failed, use only addresses that were never made accessible: these are inaccessible without
    // guards.
    if (protection == zg_protection_mprotect)
        zg_private.used_pages = zg_max(zg_private.used_pages, zg_private.committed_pages);
    // Page 0 is the guard page in front of the first block.
    uint64_t first = zg_private.used_pages ? zg_private.used_pages : 1;
    uint64_t address = zg_isolated_map.base + first * ZG_PAGE_BYTES;
    if (alignment > ZG_PAGE_BYTES) first += (zg_round_up(address, alignment) - address) / ZG_PAGE_BYTES;
    // A range that fits into one chunk must not cross a chunk border.
    else if (pages <= ZG_PRIVATE_CHUNK_PAGES &&
             first / ZG_PRIVATE_CHUNK_PAGES != (first + pages - 1) / ZG_PRIVATE_CHUNK_PAGES)
        first = zg_round_up(first, ZG_PRIVATE_CHUNK_PAGES);
    if (!commit(first + pages)) return NULL;
    struct zg_span *span = zg_span_table_add(&zg_isolated_map, first, pages);
    if (!span) return NULL;
    *skip = first - zg_private.used_pages;
    zg_private.used_pages = first + pages;
    span->protection = protection;
    return span;
}

static struct zg_span *take_reusable(uint64_t pages) {
    if (pages > ZG_PRIVATE_CHUNK_PAGES || !zg_private.bins[pages]) return NULL;
    struct zg_span *span = zg_span_by_number(zg_private.bins[pages]);
    zg_private.bins[pages] = span->next;
    return span;
}

void zg_private_give_range(struct zg_span *span) {
    if (span->units > ZG_PRIVATE_CHUNK_PAGES) return;
    span->next = zg_private.bins[span->units];
    zg_private.bins[span->units] = zg_span_number(span);
}

// If a reused range is protected by a mapping (in a closed chunk, or without guard pages), reopens the chunk or takes
// the mappings that the range needs. False if neither works.
static bool pay_for_mapping(struct zg_private_range *range) {
    if (range->span->protection != zg_protection_mprotect || range->by_mapping) return true;
    uint64_t chunk = zg_private_first_chunk(range->span);
    if (zg_private_is_closed(chunk) && zg_private_reopen_chunk(chunk)) return true;
    return range->by_mapping = zg_mappings_take(2);
}

void zg_private_take_range(struct zg_private_range *range, uint64_t pages, uint64_t alignment, bool has_data) {
    range->span = alignment <= ZG_PAGE_BYTES ? take_reusable(pages) : NULL;
    if (range->span && has_data && !pay_for_mapping(range)) {
        zg_private_give_range(range->span);
        range->span = NULL;
    }
    range->is_fresh = !range->span;
    if (range->is_fresh) range->span = take_fresh(pages, alignment, &range->skip);
}

// Returns true if the range may have guard pages: it crosses a chunk border, and one of the two chunks may have been
// reopened with guard pages.
static bool may_have_guards(const struct zg_span *span) {
    return zg_private_first_chunk(span) != zg_private_last_chunk(span) && zg_protection_had_guards();
}

bool zg_private_open_range(const struct zg_private_range *range) {
    const struct zg_span *span = range->span;
    char *data = (char *)span->base;
    uint64_t bytes = zg_private_data_bytes(span);
    bool by_mapping = span->protection == zg_protection_mprotect;
    if (!zg_private_has_data(span) && (!range->is_fresh || by_mapping)) return true;
    if (!by_mapping && range->is_fresh) {
        uint64_t skipped = range->skip * ZG_PAGE_BYTES;
        return (!skipped || zg_os_guard(data - skipped, skipped) == 0) && zg_os_guard(data + bytes, ZG_PAGE_BYTES) == 0;
    }
    // Make the range accessible even if guard pages protect it: the program may have changed its protection (mprotect).
    if (zg_os_commit(data, bytes) != 0 || (span->dirty && zg_os_discard(data, bytes) != 0)) return false;
    return (by_mapping && !may_have_guards(span)) || zg_os_unguard(data, bytes) == 0;
}
