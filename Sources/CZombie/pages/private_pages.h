// Private pages: blocks that share no page with other blocks.
//
// The block ends at the end of a page, as its alignment allows, and a guard page follows, so that overruns fault at the
// instruction. One in four blocks of a context, never its first, begins at the start of its pages instead, so that
// accesses in front of it fault. A block of 0 bytes has only a guard page, and its address is the address of that page.
// When the block is freed, its pages become inaccessible and their memory is released. The addresses stay retired until
// `retired_bytes` of younger blocks have been freed, so every later access faults, too.
// The rest of the block's pages is a red zone: all bytes behind the block, and ZG_LEAD_MOST bytes in front of it. The
// red zone is verified when the block is freed, at the program's exit, and by verify() (zg_api.h).
//
//   | guard | lead, block, gap | guard | lead, block, gap | guard |     one area; adjacent blocks share the guard page
//
// Without guard pages (protect.h), the area is inaccessible except for the pages of live blocks, which cost two
// mappings each.
//
// Records are spans (zg_block.h). `protection` tells how a span's pages are protected; `units` counts its pages,
// including the guard page behind the block.
// Slow path, one lock; zg_revive_isolated…: signal context, no lock.
//
// Files, lowest first: private_chunks inaccessible mappings of 2 MiB · private_space ranges of pages · private_retired
// freed blocks · private_gaps red zones · private_pages allocation and retirement. private_state.h is their shared
// state.

#ifndef ZG_PRIVATE_PAGES_H
#define ZG_PRIVATE_PAGES_H

#include "findings/found.h"
#include "include/zg_block.h"
#include "include/zg_coverage.h"
#include "platform/base.h"
#include "stacks/focus.h"
#include "threads/thread.h"

// A range of more pages is not reused after its block is freed. The area is aligned to this many pages: then each chunk
// of 2 MiB, which is closed as a whole, has exactly one of the kernel's page tables.
enum { ZG_PRIVATE_REUSED_PAGES_MOST = 512 };
#define ZG_PRIVATE_AREA_ALIGNMENT (ZG_PRIVATE_REUSED_PAGES_MOST * ZG_PAGE_BYTES)

// Returns the size of the block's pages without the guard page.
ZG_INLINE uint64_t zg_private_data_bytes(const struct zg_span *span) { return (span->units - 1) * ZG_PAGE_BYTES; }

// Maps the tables of chunks and contexts. False if the kernel refuses. Called at the start.
bool zg_private_init(void);
// Returns true if memory allows private pages for a block of this size. `first`: the block is the first of its context;
// other blocks leave half of the memory to first blocks.
bool zg_private_has_room(uint64_t size, bool first);
// Returns true if blocks that could lie in windows may still get private pages: private pages take less than their
// share of the live bytes. `is_first`: the block is among the first ones of its context.
bool zg_private_is_affordable(bool is_first);
// Allocates a block for the context, with zeroed memory and filled red zones. NULL if memory, mappings or address space
// do not suffice. `alignment`: a power of two, at least 16; isolated_align and zg_focus_exact_end may reduce it for a
// family without alignment. `focus`: how to place the block. With zg_focus_none, one in four blocks begins at the start
// of its pages, and isolated_bytes limits the memory.
struct zg_span *zg_private_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context,
                                    enum zg_focus focus);
// Finds the first and the last changed byte of the red zones. False if there is none.
bool zg_private_is_overrun(const struct zg_span *span, struct zg_change *change);
// Verifies the red zones of all live blocks and reports each change once (ZG_HEADER_CHANGED marks the block). Other
// threads may allocate and free blocks meanwhile. Returns the number of findings. The thread must be in the runtime.
uint64_t zg_private_verify_live(struct zg_thread *thread, const char *found_by);
// Returns true if the program may map, protect or advise the pages of this block, because the block consists of whole
// pages. The runtime does not read such pages.
bool zg_private_may_be_remapped(const struct zg_span *span, enum zg_alloc_family family);

// Computes the part of a red zone that lies in [low, high): in front of a live block (`which` is 0) or behind it (1).
// False if it is empty.
struct zg_red_zone {
    uint64_t from, to;
};
bool zg_private_red_zone(const struct zg_span *span, int which, uint64_t low, uint64_t high, struct zg_red_zone *zone);
// Fills the red zone again if all of its bytes have become zero.
void zg_private_fill_again(struct zg_red_zone zone);

// Protects the pages of a freed block. drop: releases their memory. keep: keeps their contents if mappings suffice.
// unmap: replaces whatever the program has mapped there. False if the kernel refuses.
enum zg_private_end { zg_private_drop, zg_private_keep, zg_private_unmap };
bool zg_private_retire(struct zg_span *span, enum zg_private_end end);

// Opens the guard page behind a live block (overread.h). Writes to it are then detected when the block is freed.
void zg_private_open_guard(struct zg_span *span);

void zg_private_lock(void);
void zg_private_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// Like zg_span_broken.
const char *zg_private_broken(void (*see)(uint32_t number, bool retired));
#endif

#endif
