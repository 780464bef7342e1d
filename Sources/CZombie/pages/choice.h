// Chooses which blocks are isolated. Profile fence isolates all blocks. Otherwise the first blocks of each context are
// isolated, and a few later ones, within budgets of processor time (isolated_overhead, page_time.h) and memory
// (isolated_bytes, conditions.h).
// Slow path; no lock.

#ifndef ZG_CHOICE_H
#define ZG_CHOICE_H

#include "pages/isolation_policy.h"
#include "stacks/focus.h"

// Maps the table of contexts. False if the kernel refuses. Called at the start.
bool zg_choice_init(void);
// Decides whether and how a block of this context is isolated. Private pages (private_pages.h) have guard pages on both
// sides and are chosen if they are cheap enough; otherwise the block gets a page of a window (window.h). `caller`: the
// allocation's return address, or 0 if the block cannot lie in a window. `is_later`: the block is considered because a
// magazine is empty, not because of its context.
enum zg_isolation zg_choice_decide(uint32_t context, uint64_t size, bool is_later, uint64_t caller);
// Begins an epoch: resets the counts of all contexts to 0. Each test of a bundle is an epoch.
void zg_choice_begin_epoch(void);
// Returns how blocks of a focused context are placed (focus.h); zg_focus_none if the context is not focused. Costs a
// test of one variable if no stack is focused.
enum zg_focus zg_choice_focus(uint32_t context);
// Counts an isolated block of the context.
void zg_choice_note_isolated(uint32_t context, uint64_t caller);
// Counts the context of a block with a memory tag as isolated in the statistics: the tag also detects bad accesses.
void zg_choice_note_tagged(uint32_t context);

#endif
