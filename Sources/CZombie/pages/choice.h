// Which blocks get pages of their own: those of profile `fence`, the first of each allocation context, and later ones now and
// then; as far as processor time (fence_overhead, page_time.h) and memory (fence_bytes, fence.h) reach.
// Slow path; no lock.

#ifndef ZG_CHOICE_H
#define ZG_CHOICE_H

#include "platform/base.h"

enum zg_choice { zg_choice_none, zg_choice_pages, zg_choice_window };

// Maps the table of contexts. False where it is refused; at the start.
bool zg_choice_init(void);
// What a block of this context is to get now: one of its first, or (`later`) one of those that are chosen now and then. Private pages
// (fence.h), which are guarded on their outside, too, where they are cheap enough, and otherwise a window (window.h), if the
// block can lie in one: then `caller` is who asked for it, a return address, and not 0.
enum zg_choice zg_choose(uint32_t context, uint64_t size, bool later, uint64_t caller);
// From now on the counts of all contexts begin again, for as long as a test's.
void zg_choice_begin_epoch(void);
// Counts a block that got it as one of the context's.
void zg_choice_note(uint32_t context, uint64_t caller);
// A block of the context's got a memory tag, by which it is watched as well: counts the context.
void zg_choice_note_tagged(uint32_t context);

#endif
