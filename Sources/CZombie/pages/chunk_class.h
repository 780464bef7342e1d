// Chunk classes: which chunk of a class hands blocks out, by way of which window; when a class gets another chunk, or a
// chunk another window.
// Slow path; under the lock of windows.

#ifndef ZG_CHUNK_CLASS_H
#define ZG_CHUNK_CLASS_H

#include "pages/window_state.h"

// The number of the chunk class for slots of this size class.
ZG_INLINE uint32_t zg_chunk_class_number(uint32_t slot_class, bool is_long_lived) {
    return 2 * slot_class + is_long_lived;
}
// The chunk that hands blocks of the class out; NULL where none does.
ZG_INLINE struct zg_chunk *zg_chunk_class_current(uint32_t class) {
    uint32_t number = zg_windows.classes[class].current;
    return number ? zg_chunk_by_number(number) : NULL;
}
// Makes another chunk the current one of the class, or gives the current one another window. Returns the current chunk;
// NULL where there is none: zg_windows.lacking has the reason.
struct zg_chunk *zg_chunk_class_advance(uint32_t class);
// Puts a chunk with enough free slots on the list of its class, unless it is there or hands blocks out.
void zg_chunk_class_list(struct zg_chunk *chunk);

#endif
