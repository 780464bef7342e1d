// Closes chunks of private pages: once all blocks in 2 MiB are freed, one inaccessible mapping replaces the guard
// pages, whose page tables every fork would copy. Reopens a chunk to reuse its addresses.
// Slow path; under the lock of private pages.

#include "pages/private_state.h"
#include "pages/protect.h"
#include "platform/os.h"

uint64_t zg_private_first_chunk(const struct zg_span *span) {
    return (span->base - zg_isolated_map.base) / ZG_PAGE_BYTES / ZG_PRIVATE_CHUNK_PAGES;
}
uint64_t zg_private_last_chunk(const struct zg_span *span) {
    return ((span->base - zg_isolated_map.base) / ZG_PAGE_BYTES + span->units - 1) / ZG_PRIVATE_CHUNK_PAGES;
}

static void *start_of(uint64_t chunk) {
    return (void *)(zg_isolated_map.base + chunk * ZG_PRIVATE_CHUNK_PAGES * ZG_PAGE_BYTES);
}
enum { CHUNK_BYTES = ZG_PRIVATE_CHUNK_PAGES * ZG_PAGE_BYTES };

bool zg_private_is_closed(uint64_t chunk) {
    return chunk < ZG_POLICY_AREA_CHUNKS && zg_private.live_blocks[chunk] == ZG_PRIVATE_CLOSED;
}

// Records how the pages of the chunk's blocks are protected. A block larger than a chunk also has pages in other
// chunks, but its addresses are never reused.
static void set_protection(uint64_t chunk, enum zg_protection protection) {
    for (uint64_t page = chunk * ZG_PRIVATE_CHUNK_PAGES; page < (chunk + 1) * ZG_PRIVATE_CHUNK_PAGES; page++) {
        uint32_t number = zg_isolated_map.numbers[page];
        if (number) zg_span_by_number(number)->protection = protection;
    }
}

// Returns the number of closed neighbors (0 to 2). Adjacent closed chunks are one mapping.
static int closed_neighbours(uint64_t chunk) {
    return (chunk && zg_private_is_closed(chunk - 1)) + zg_private_is_closed(chunk + 1);
}

void zg_private_close_chunk(uint64_t chunk) {
    if (chunk >= ZG_POLICY_AREA_CHUNKS || zg_private.live_blocks[chunk] || zg_private.blocks_until_close[chunk]) return;
    if ((chunk + 1) * ZG_PRIVATE_CHUNK_PAGES > zg_private.used_pages) return;
    if (zg_protection_now() != zg_protection_guards || zg_private_keeps_contents()) return;
    int joins = closed_neighbours(chunk);
    if (!joins && (!zg_policy_may_close_run(zg_private.closed_runs) || !zg_mappings_take(2))) return;
    if (zg_os_retire(start_of(chunk), CHUNK_BYTES) != 0) {
        if (!joins) zg_mappings_give(2);
        return;
    }
    if (joins == 2) zg_mappings_give(2);
    zg_private.closed_runs += 1 - (uint32_t)joins;
    zg_private.live_blocks[chunk] = ZG_PRIVATE_CLOSED;
    set_protection(chunk, zg_protection_mprotect);
}

bool zg_private_reopen_chunk(uint64_t chunk) {
    int joins = closed_neighbours(chunk);
    if (zg_protection_now() != zg_protection_guards || zg_private.reopened_blocks[chunk]) return false;
    if (joins == 2 && (!zg_policy_may_close_run(zg_private.closed_runs) || !zg_mappings_take(2))) return false;
    if (zg_os_commit(start_of(chunk), CHUNK_BYTES) != 0 || zg_os_guard(start_of(chunk), CHUNK_BYTES) != 0) {
        zg_os_retire(start_of(chunk), CHUNK_BYTES);
        return false;
    }
    if (!joins) zg_mappings_give(2);
    zg_private.closed_runs += (uint32_t)joins - 1;
    zg_private.live_blocks[chunk] = 0;
    zg_private.blocks_until_close[chunk] = ZG_POLICY_REOPENED_BLOCKS;
    set_protection(chunk, zg_protection_guards);
    return true;
}

static uint64_t end_of_counted_chunks(const struct zg_span *span) {
    return zg_min(zg_private_last_chunk(span) + 1, ZG_POLICY_AREA_CHUNKS);
}

void zg_private_enter_chunks(const struct zg_span *span) {
    for (uint64_t chunk = zg_private_first_chunk(span), end = end_of_counted_chunks(span); chunk < end; chunk++) {
        if (zg_private_is_closed(chunk)) {
            zg_private.reopened_blocks[chunk]++;
            continue;
        }
        zg_private.live_blocks[chunk]++;
        if (zg_private.blocks_until_close[chunk]) zg_private.blocks_until_close[chunk]--;
    }
}

void zg_private_leave_chunks(const struct zg_span *span) {
    for (uint64_t chunk = zg_private_first_chunk(span), end = end_of_counted_chunks(span); chunk < end; chunk++)
        if (zg_private_is_closed(chunk)) zg_private.reopened_blocks[chunk]--;
        else if (!--zg_private.live_blocks[chunk]) zg_private_close_chunk(chunk);
}
