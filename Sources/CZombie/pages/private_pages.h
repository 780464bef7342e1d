// Private pages: blocks that share no page with others. The block's end, as far as its alignment allows, is the end of
// a page, and a guard page follows: overruns fault at the instruction. One in four blocks of a context, never its
// first, stands at the start of its pages instead, and accesses in front of it fault. A block of 0 bytes has a guard
// page alone, and its address is that of the page. When the block dies its pages become inaccessible, their memory goes
// back, and the addresses stay retired until `retired_bytes` of younger blocks have died: every later access faults,
// too. The rest of the block's pages is a red zone, which is verified when the block is freed, at the program's exit
// and by zg_check: behind the block all of it, in front of it ZG_LEAD_MOST bytes.
//
//   | guard | lead, block, gap | guard | lead, block, gap | guard |     one area, pages side by side, guards shared
//
// Without guards (protect.h) the area is inaccessible but for the pages of live blocks, two mappings each.
//
// Records are spans (zg_block.h) whose `protection` says how they are protected; `units` counts pages, the guard page
// behind the block included.
// Slow path, one lock; zg_revive_isolated…: signal context, no lock.
//
// The files, from the bottom to the top: private_chunks inaccessible mappings of 2 MiB · private_space ranges of pages
// · private_retired freed blocks · private_gaps red zones · private_pages making and retiring blocks; private_state.h
// is what they share.

#ifndef ZG_PRIVATE_PAGES_H
#define ZG_PRIVATE_PAGES_H

#include "findings/found.h"
#include "include/zg_block.h"
#include "include/zg_coverage.h"
#include "platform/base.h"
#include "threads/thread.h"

// A range of more pages is not used again once its block is dead. The area begins at a multiple of this, so that the 2
// MiB that are closed together are one page of the kernel's page tables.
enum { ZG_PRIVATE_REUSED_PAGES_MOST = 512 };
#define ZG_PRIVATE_AREA_ALIGNMENT (ZG_PRIVATE_REUSED_PAGES_MOST * ZG_PAGE_BYTES)

// Bytes of the block's pages, without the guard page behind them.
ZG_INLINE uint64_t zg_private_data_bytes(const struct zg_span *span) { return (span->units - 1) * ZG_PAGE_BYTES; }

// Maps the tables of chunks and contexts. False where the kernel refuses them; at the start.
bool zg_private_init(void);
// There is memory for the pages of a block of this size: the first block of its context, or one of the others, which
// leave first blocks half of it.
bool zg_private_has_room(uint64_t size, bool first);
// Private pages of blocks that could lie in windows take no more than their share of the live bytes.
bool zg_private_is_affordable(void);
// Makes a block of the context, its memory zero, the rest of its pages filled. NULL where memory, mappings or address
// space do not suffice. `alignment` is a power of two, at least 16; where the block's family has no alignment,
// isolated_align may reduce it.
struct zg_span *zg_private_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context);
// The first and the last change of the red zones. False where there is none.
bool zg_private_is_overrun(const struct zg_span *span, struct zg_change *change);
// Verifies the red zones of all live blocks, and reports each change once: the block is marked with ZG_HEADER_CHANGED.
// Other threads may make and free blocks meanwhile. Returns the number of findings. The thread is in the runtime.
uint64_t zg_private_verify_live(struct zg_thread *thread, const char *found_by);
// The program may map, protect or advise the pages of this block, because it owns all of them: nothing in them is
// looked at.
bool zg_private_may_be_remapped(const struct zg_span *span, enum zg_alloc_family family);

// The part of a red zone that lies in [low, high): in front of a live block (`which` 0) or behind it (1). False where
// no part does.
struct zg_red_zone {
    uint64_t from, to;
};
bool zg_private_red_zone(const struct zg_span *span, int which, uint64_t low, uint64_t high, struct zg_red_zone *zone);
// Fills it again where it has become zeros.
void zg_private_fill_again(struct zg_red_zone zone);

// Protects the pages of a freed block: their memory goes back; or their contents are kept, where mappings allow it; or
// a mapping of the program's is replaced.
enum zg_private_end { zg_private_drop, zg_private_keep, zg_private_unmap };
void zg_private_retire(struct zg_span *span, enum zg_private_end end);

// Opens the guard page behind a block that is still live (overread.h). Writes there are found when the block is freed.
void zg_private_open_guard(struct zg_span *span);

void zg_private_lock(void);
void zg_private_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// As zg_span_broken.
const char *zg_private_broken(void (*see)(uint32_t number, bool retired));
#endif

#endif
