// The state of private pages, for the files private_….c only; other files use private_pages.h. Writes need `lock`,
// except to the sums for live blocks and to `turns`, which are atomic.

#ifndef ZG_PRIVATE_STATE_H
#define ZG_PRIVATE_STATE_H

#include "blocks/span_table.h"
#include "pages/isolation_policy.h"
#include "pages/private_pages.h"
#include "pages/queue.h"
#include "platform/lock.h"
#include "settings/config.h"

enum {
    ZG_PRIVATE_CHUNK_PAGES = ZG_PRIVATE_REUSED_PAGES_MOST, // pages in one page table of the kernel
    ZG_PRIVATE_CLOSED = 0xffff,                            // value of live_blocks for a closed chunk
    // Size of the checked part in front of a block and in an opened guard page.
    ZG_PRIVATE_LEAD_MOST = ZG_LEAD_MOST,
};

// Invariants:
// 1. Pages of the area from used_pages on were never used; from committed_pages on they are inaccessible.
// 2. Bin n lists the reusable ranges of n pages.
// 3. live_blocks[c] counts the live blocks with a page in chunk c. If it is ZG_PRIVATE_CLOSED, chunk c is part of one
//    inaccessible mapping, and reopened_blocks[c] counts the live blocks in it.
// 4. closed_runs counts the runs of adjacent closed chunks.
// 5. retired.amount is the size of all retired blocks' pages in bytes, and retired_count the number of these blocks.
// 6. live_bytes is the size of all live blocks' pages; small_bytes counts only blocks that leave half of their pages
//    empty.
struct zg_private_state {
    struct zg_lock lock;
    uint64_t used_pages, committed_pages;
    uint32_t bins[ZG_PRIVATE_CHUNK_PAGES + 1]; // numbers of the first spans, linked by `next`
    uint16_t *live_blocks;                     // by chunk; chunks from ZG_POLICY_AREA_CHUNKS on are never closed
    uint16_t *reopened_blocks;                 // by chunk: live blocks in a closed chunk, each a separate mapping
    uint8_t *blocks_until_close;               // by chunk: number of blocks until a reopened chunk may be closed again
    uint32_t closed_runs;                      // each costs two mappings
    struct zg_queue retired;                   // amount: bytes
    uint64_t retired_count;
    uint64_t live_bytes, small_bytes;
    // By context (ZG_DEPOT_PLACES entries): lower bits of the number of its blocks so far.
    uint8_t *turns;
};
extern struct zg_private_state zg_private;

// With on_finding=continue the contents of freed blocks are kept in separate mappings. The two mappings per block are
// taken when it is allocated, and given back when its addresses are reused: otherwise mappings could run out, and the
// program could not continue after a finding.
ZG_INLINE bool zg_private_keeps_contents(void) { return zg_config.on_finding == zg_on_finding_continue; }

// Returns true unless the block has 0 bytes, and so only a guard page.
ZG_INLINE bool zg_private_has_data(const struct zg_span *span) { return span->units > 1; }

// Returns true if the program may change whole pages of a block of this size and family by system calls. The block is
// then placed by its alignment only, never at the start of its pages to detect underruns.
ZG_INLINE bool zg_private_may_use_pages(uint64_t size, enum zg_alloc_family family) {
    return zg_family_is_aligned(family) && size >= ZG_PROGRAM_PAGES_LEAST;
}

// Returns the number of filled bytes in front of the block.
ZG_INLINE uint64_t zg_private_lead_bytes(const struct zg_span *span) {
    return zg_min(span->start - span->base, ZG_PRIVATE_LEAD_MOST);
}
ZG_INLINE uint64_t zg_private_data_end(const struct zg_span *span) { return span->base + zg_private_data_bytes(span); }

// --- chunks (private_chunks.c), under the lock ----------------------------------------------------------------------

uint64_t zg_private_first_chunk(const struct zg_span *span);
uint64_t zg_private_last_chunk(const struct zg_span *span);
// Returns true if the chunk is part of one inaccessible mapping.
bool zg_private_is_closed(uint64_t chunk);
// Closes the chunk if all of its blocks are freed.
void zg_private_close_chunk(uint64_t chunk);
// Reopens a closed chunk before a block reuses its addresses: makes it accessible and puts a guard on each page.
// Without that, each reused block takes two mappings. Returns false on failure; the chunk then stays closed.
bool zg_private_reopen_chunk(uint64_t chunk);
// Count the live blocks of chunks: the first function adds a block to its chunks, the second removes a freed one.
void zg_private_enter_chunks(const struct zg_span *span);
void zg_private_leave_chunks(const struct zg_span *span);

// --- ranges of pages (private_space.c) ------------------------------------------------------------------------------

// A range for a block, at retired or at fresh addresses. `by_mapping`: two mappings were charged for the block
// (zg_mappings_take): by the caller, or by zg_private_take_range, which then sets the field. `skip`: number of pages
// that alignment leaves unused in front of a fresh range.
struct zg_private_range {
    struct zg_span *span;
    bool is_fresh, by_mapping;
    uint64_t skip;
};
// Finds a range of `pages` pages, including the guard page. Its span is NULL if there is none. Under the lock.
void zg_private_take_range(struct zg_private_range *range, uint64_t pages, uint64_t alignment, bool has_data);
// Makes the addresses reusable. Under the lock.
void zg_private_give_range(struct zg_span *span);
// Makes the pages of the range accessible for a new block, and guards the pages around them. False if the kernel
// refuses.
bool zg_private_open_range(const struct zg_private_range *range);

// --- retired blocks (private_retired.c) -----------------------------------------------------------------------------

// Adds a block whose pages are protected. Under the lock.
void zg_private_add_retired(struct zg_span *span);
// Makes the addresses of the oldest blocks reusable while address space or records exceed their bounds. Under the lock.
void zg_private_keep_within_bounds(void);
// Takes the mappings for a block. If contents are kept and no mappings are left, makes the oldest retired blocks
// reusable to free their mappings. False if mappings do not suffice. Takes the lock.
bool zg_private_take_mappings(void);

// --- red zones (private_gaps.c) -------------------------------------------------------------------------------------

// Returns true if the guard page behind a block that is being freed is open. After this call, that page is not opened.
// Takes the lock.
bool zg_private_has_open_guard(const struct zg_span *span);
// Waits for threads that may still verify the red zones of a block that has just left state live. Takes the lock.
void zg_private_wait_for_looks(void);
// Called in the child of a fork, where no other thread verifies blocks any more.
void zg_private_forget_lookers(void);

#endif
