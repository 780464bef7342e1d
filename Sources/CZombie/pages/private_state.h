// The state of private pages. For the files private_….c alone; others call private_pages.h. All of it is written under
// `lock`, but for the sums of live blocks and the turns of contexts, which are atomic.

#ifndef ZG_PRIVATE_STATE_H
#define ZG_PRIVATE_STATE_H

#include "blocks/span_table.h"
#include "pages/isolation_policy.h"
#include "pages/private_pages.h"
#include "pages/queue.h"
#include "platform/lock.h"
#include "settings/config.h"

enum {
    ZG_PRIVATE_CHUNK_PAGES = ZG_PRIVATE_REUSED_PAGES_MOST, // one page of the kernel's page tables
    ZG_PRIVATE_CLOSED = 0xffff,                            // in the place of a chunk's count of live blocks
    ZG_PRIVATE_LEAD_MOST = ZG_LEAD_MOST,                   // bytes; also of an open guard page behind a block
};

// Invariants:
// 1. Pages of the area from used_pages on were never used, and those from committed_pages on are inaccessible.
// 2. A bin holds retired ranges of its number of pages, which may be used again.
// 3. live_blocks[c] counts the live blocks with a page in chunk c, or is ZG_PRIVATE_CLOSED: then the chunk is part of
//    one inaccessible mapping, and reopened_blocks[c] counts the live blocks in it.
// 4. closed_runs counts the runs of closed chunks side by side.
// 5. retired.amount is the sum of the pages of retired blocks in bytes, and retired_count their number.
// 6. live_bytes is the sum of the pages of live blocks, and small_bytes that of blocks which leave half of their pages
//    empty.
struct zg_private_state {
    struct zg_lock lock;
    uint64_t used_pages, committed_pages;
    uint32_t bins[ZG_PRIVATE_CHUNK_PAGES + 1]; // numbers of the first records, linked by `next`
    uint16_t *live_blocks;                     // by chunk; chunks beyond ZG_POLICY_AREA_CHUNKS are never closed
    uint16_t *reopened_blocks;                 // by chunk; each is a mapping of its own
    uint8_t *blocks_until_close;               // by chunk: blocks until one that was reopened may be closed again
    uint32_t closed_runs;                      // two mappings each
    struct zg_queue retired;                   // amount: bytes
    uint64_t retired_count;
    uint64_t live_bytes, small_bytes;
    uint8_t *turns; // by context, ZG_DEPOT_PLACES of them: the number of blocks so far, its lower bits
};
extern struct zg_private_state zg_private;

// With on_finding=continue contents are kept behind a mapping of their own. The two mappings that this costs are taken
// when the block is made, and given back when its addresses are used again: without them the program could not go on
// after a finding.
ZG_INLINE bool zg_private_keeps_contents(void) { return zg_config.on_finding == zg_on_finding_continue; }

// A block of 0 bytes has a guard page, and no other.
ZG_INLINE bool zg_private_has_data(const struct zg_span *span) { return span->units > 1; }

// The program may use whole pages of such a block by system calls: then the block stands where it was asked to.
ZG_INLINE bool zg_private_may_use_pages(uint64_t size, enum zg_alloc_family family) {
    return zg_family_is_aligned(family) && size >= ZG_PROGRAM_PAGES_LEAST;
}

// The number of filled bytes in front of the block.
ZG_INLINE uint64_t zg_private_lead_bytes(const struct zg_span *span) {
    return zg_min(span->start - span->base, ZG_PRIVATE_LEAD_MOST);
}
ZG_INLINE uint64_t zg_private_data_end(const struct zg_span *span) { return span->base + zg_private_data_bytes(span); }

// --- chunks (private_chunks.c), under the lock ----------------------------------------------------------------------

uint64_t zg_private_first_chunk(const struct zg_span *span);
uint64_t zg_private_last_chunk(const struct zg_span *span);
// The chunk is part of one inaccessible mapping.
bool zg_private_is_closed(uint64_t chunk);
// Closes the chunk, if all its blocks are dead.
void zg_private_close_chunk(uint64_t chunk);
// An address of a closed chunk is to be used again: all its pages get guards, instead of two mappings for each block.
// False where that fails: the chunk is closed.
bool zg_private_reopen_chunk(uint64_t chunk);
// A block becomes live. / It is dead.
void zg_private_enter_chunks(const struct zg_span *span);
void zg_private_leave_chunks(const struct zg_span *span);

// --- ranges of pages (private_space.c) ------------------------------------------------------------------------------

// A range for a block: of retired addresses, or of addresses that were never used. `by_mapping`: the block costs two
// mappings, which the caller has taken; it becomes true where they are taken here. `skip`: pages in front of a fresh
// range that alignment leaves out.
struct zg_private_range {
    struct zg_span *span;
    bool is_fresh, by_mapping;
    uint64_t skip;
};
// Finds a range of `pages` pages, the guard page included. Its span is NULL where there is none. Under the lock.
void zg_private_take_range(struct zg_private_range *range, uint64_t pages, uint64_t alignment, bool has_data);
// The addresses may be used again. Under the lock.
void zg_private_give_range(struct zg_span *span);
// Opens the pages of the range for a new block, and guards the pages around them. False where the kernel refuses.
bool zg_private_open_range(const struct zg_private_range *range);

// --- retired blocks (private_retired.c) -----------------------------------------------------------------------------

// Adds a block whose pages are protected. Under the lock.
void zg_private_add_retired(struct zg_span *span);
// The addresses of the oldest blocks may be used again, once address space or records exceed their bounds. Under the
// lock.
void zg_private_keep_within_bounds(void);
// Takes the mappings for a block; where contents are kept, those of the oldest retired blocks once no others are left.
// Takes the lock.
bool zg_private_take_mappings(void);

// --- red zones (private_gaps.c) -------------------------------------------------------------------------------------

// The guard page behind a block that is being freed is open, and no longer opened after this answer. Takes the lock.
bool zg_private_has_open_guard(const struct zg_span *span);
// Waits until no thread looks at a block that is no longer live. Takes the lock.
void zg_private_wait_for_looks(void);
// In the child of a fork: threads that looked at blocks are not there.
void zg_private_forget_lookers(void);

#endif
