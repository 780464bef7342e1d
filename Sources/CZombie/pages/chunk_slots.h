// Slots of chunks: one is taken at a page of the current window, and given back once that page is guarded.
// Slow path; under the lock of windows.

#ifndef ZG_CHUNK_SLOTS_H
#define ZG_CHUNK_SLOTS_H

#include "pages/window_state.h"

// Moves the cursor to the next page with a free slot that the current window may hand out. False where there is none.
bool zg_chunk_find_page(struct zg_chunk *chunk);
// Takes a slot of the page at the cursor: its block has state fresh. NULL where a guard of the page cannot be removed.
struct zg_alias *zg_chunk_take_slot(struct zg_chunk *chunk);
// The page of the block is guarded: its slot serves again.
void zg_chunk_give_slot(struct zg_alias *alias);

#endif
