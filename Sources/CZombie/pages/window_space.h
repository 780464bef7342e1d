// The address space of windows: mapping one onto a chunk, closing it when its blocks are dead, forgetting it so that
// its address space serves again, and keeping windows that no more blocks are handed out by out of the page tables.
// Slow path; under the lock of windows.

#ifndef ZG_WINDOW_SPACE_H
#define ZG_WINDOW_SPACE_H

#include "pages/window_state.h"

// Maps a window onto the chunk, and makes it the chunk's current one. False where mappings, address space or memory do
// not suffice.
bool zg_window_space_open(struct zg_chunk *chunk);
// All blocks of an open window are dead: its guards become one inaccessible mapping.
void zg_window_space_close(uint32_t number);
// No more blocks are handed out by way of the window: its pages leave the page tables once there are too many of other
// windows'.
void zg_window_space_queue_for_unmap(uint32_t number);

// The sums of pages in the page tables.
void zg_window_space_note_mapped(struct zg_window *window, uint32_t pages);
void zg_window_space_note_unmapped(struct zg_window *window, uint32_t pages);

#endif
