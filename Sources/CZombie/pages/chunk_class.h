// Chunk classes: choose the chunk and the window that a class allocates from, and decide when a class gets another
// chunk, or a chunk another window.
// Slow path; under the lock of windows.

#ifndef ZG_CHUNK_CLASS_H
#define ZG_CHUNK_CLASS_H

#include "pages/window_state.h"

// Returns the number of the chunk class for slots of this size class and lifetime.
ZG_INLINE uint32_t zg_chunk_class_number(uint32_t slot_class, bool is_long_lived) {
    return 2 * slot_class + is_long_lived;
}
// Returns the chunk that the class allocates from, or NULL.
ZG_INLINE struct zg_chunk *zg_chunk_class_current(uint32_t class) {
    uint32_t number = zg_windows.classes[class].current;
    return number ? zg_chunk_by_number(number) : NULL;
}
// Makes another chunk the class's current one, or gives the current chunk another window. Returns the current chunk.
// NULL if there is none; zg_windows.lacking then has the reason.
struct zg_chunk *zg_chunk_class_advance(uint32_t class);
// Puts a chunk with enough free slots on the list of its class, unless it is listed already or is the current chunk.
void zg_chunk_class_list(struct zg_chunk *chunk);

#endif
