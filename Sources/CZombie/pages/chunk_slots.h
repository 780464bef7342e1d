// Slots of chunks: a slot is taken on a page of the current window, and given back once that page is guarded.
// Slow path; under the lock of windows.

#ifndef ZG_CHUNK_SLOTS_H
#define ZG_CHUNK_SLOTS_H

#include "pages/window_state.h"

// Moves the cursor to the next page that has a free slot and no block of the current window. False if there is none.
bool zg_chunk_find_page(struct zg_chunk *chunk);
// Takes a slot of the page at the cursor; its block has state fresh. NULL if the page's guard cannot be removed.
struct zg_alias *zg_chunk_take_slot(struct zg_chunk *chunk);
// Gives the slot of a block back. The block's page must be guarded.
void zg_chunk_give_slot(struct zg_alias *alias);

#endif
