// Fenced blocks: blocks with pages of their own. The block's end, as far as its alignment allows, is the end of a page, and a
// page that nobody may touch follows: overruns fault at the instruction. Of every four blocks of a context one, never the first,
// stands at the start of its pages instead, and what faults are accesses in front of it. A block of 0 bytes has no page but the
// one that nobody may touch, and begins there. When the block dies its pages are protected and
// their memory goes back, and the address stays dead until `retired_bytes` of younger ones have died: every later access
// faults, too. What is left in front of and behind the block is filled and looked at when it is freed, at the program's exit and
// when somebody asks: behind the block all of it, in front of it ZG_LEAD_MOST bytes.
//
//   | guard | lead, block, gap | guard | lead, block, gap | guard |          one area, pages side by side, guards shared
//
// Without guards (protect.h) the area is inaccessible but for the pages of blocks in use, two mappings each.
//
// Which blocks: choice.h; as far as memory (fence_bytes) reaches.
//
// Records are spans (zg_block.h) whose `fenced` says how they are protected; `units` counts pages, the guard behind the block included.
// Slow path, one lock; zg_revive_fenced…: signal context, no lock.

#ifndef ZG_FENCE_H
#define ZG_FENCE_H

#include "findings/found.h"
#include "include/zg_block.h"
#include "include/zg_coverage.h"
#include "platform/base.h"
#include "threads/thread.h"

// A range of more pages than these is not used again once its block is gone. The area begins at a multiple of as many, so that
// what is closed as a whole (2 MiB) is one page of the kernel's page tables.
enum { ZG_FENCE_REUSED_MOST = 512 };
#define ZG_FENCE_AREA_ALIGNMENT (ZG_FENCE_REUSED_MOST * ZG_PAGE_BYTES)

// Bytes of the pages of a fenced block, without the guard behind them.
ZG_INLINE uint64_t zg_fence_data_bytes(const struct zg_span *span) { return (span->units - 1) * ZG_PAGE_BYTES; }

// Maps the tables of chunks and contexts. False where it is refused; at the start.
bool zg_fence_init(void);
// What the pages of blocks in use may take, bytes: never more than half of the machine's memory, nothing more once it gets short, and
// where only some blocks are fenced, a share of what the program has, or for `first` blocks of stacks twice of it. `*limit` gets
// which of them it is.
uint64_t zg_fence_memory_most(bool first, enum zg_coverage_reason *limit);
// Memory is too narrow for a page for each block (zg_pressure_is_narrow): nothing more where all blocks are fenced.
void zg_fence_set_narrow(bool narrow);
bool zg_fence_is_narrow(void);
// Whether there is memory for the pages of a block of this size: the first block of its stack, or one of the others, which leave
// those half of it.
bool zg_fence_has_room(uint64_t size, bool first);
// Private pages of small blocks, which could have windows, take no more than a share of what is in use.
bool zg_fence_is_affordable(void);
// A block of the context, its memory zero, the rest of its pages filled. NULL where memory, mappings or address space do not
// reach. `alignment` is a power of two, at least 16; where `kind` is none with an alignment, fence_align may say less.
struct zg_span *zg_fence_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, uint32_t context);
// What of the fill around the block has changed. False: nothing.
bool zg_fence_is_overrun(const struct zg_span *span, struct zg_change *change);
// Looks at the fill around all blocks in use, and reports each that has changed once: such a block is marked with
// ZG_HEADER_CHANGED. Other threads may make and free blocks meanwhile. Returns the number of findings. The thread is entered.
uint64_t zg_fence_verify_live(struct zg_thread *thread, const char *found_by);
// In blocks of whole pages the program may map, protect or advise as it likes: they are not looked at.
bool zg_fence_is_programs(const struct zg_span *span, enum zg_alloc_family family);
// The fill in front of a block in use (0) and behind it (1), as far as it lies in [low, high). False where none does.
bool zg_fence_fill_in(const struct zg_span *span, int which, uint64_t low, uint64_t high, uint64_t *from, uint64_t *to);
// Writes it again, where it has become zeros.
void zg_fence_fill_again(uint64_t from, uint64_t to);
// Protects the pages of a dead block: their memory goes; or their contents stay, where mappings allow it; or whatever is mapped
// there is replaced.
enum zg_fence_end { zg_fence_drop, zg_fence_keep, zg_fence_unmap };
void zg_fence_retire(struct zg_span *span, enum zg_fence_end end);

// Opens the guard behind a block in use, if it still is (overread.h). What is written there is found when it is freed.
void zg_fence_open_guard(struct zg_span *span);

void zg_fence_lock(void);
void zg_fence_unlock(bool reset);

#ifdef ZG_CHECK_INVARIANTS
// As zg_span_broken.
const char *zg_fence_broken(void (*span)(uint32_t number, bool retired));
#endif

#endif
