// The address space of windows: maps a window onto a chunk; closes it when its blocks are freed; clears its records so
// that its addresses can be reused; and removes retired windows from the page tables.
// Slow path; under the lock of windows.

#ifndef ZG_WINDOW_SPACE_H
#define ZG_WINDOW_SPACE_H

#include "pages/window_state.h"

// Maps a window onto the chunk and makes it the chunk's current one. False if mappings, address space or memory do not
// suffice.
bool zg_window_space_open(struct zg_chunk *chunk);
// Closes an open window whose blocks are all freed: one inaccessible mapping replaces its guard pages.
void zg_window_space_close(uint32_t number);
// Queues a retired window: its pages are removed from the page tables once too many pages of retired windows are
// mapped.
void zg_window_space_queue_for_unmap(uint32_t number);

// Update the numbers of pages that are in the page tables.
void zg_window_space_note_mapped(struct zg_window *window, uint32_t pages);
void zg_window_space_note_unmapped(struct zg_window *window, uint32_t pages);

#endif
