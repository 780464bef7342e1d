// The choice of blocks that are isolated: all (profile fence), or the first ones of each allocation context and later
// ones now and then, as processor time (isolated_overhead, page_time.h) and memory (isolated_bytes, conditions.h)
// allow. Slow path; no lock.

#ifndef ZG_CHOICE_H
#define ZG_CHOICE_H

#include "pages/isolation_policy.h"

// Maps the table of contexts. False where the kernel refuses it; at the start.
bool zg_choice_init(void);
// Whether a block of this context is isolated, and how: by private pages (private_pages.h), which have guard pages on
// both sides, where they are cheap enough; otherwise by a page of a window (window.h), if the block can lie in one.
// Then `caller` is the return address of the allocation, and otherwise 0. `is_later`: the block is considered because a
// magazine is empty, and not for its context.
enum zg_isolation zg_choice_decide(uint32_t context, uint64_t size, bool is_later, uint64_t caller);
// Begins an epoch: the counts of all contexts are 0 in it. A test of a bundle has its own epoch.
void zg_choice_begin_epoch(void);
// Counts an isolated block of the context.
void zg_choice_note_isolated(uint32_t context, uint64_t caller);
// Counts the context of a block that has a memory tag, which watches it as well.
void zg_choice_note_tagged(uint32_t context);

#endif
