// Blocks change their size, by a thread that is entered. Hot path: zg_reallocate_quickly.

#ifndef ZG_REALLOCATE_H
#define ZG_REALLOCATE_H

#include "threads/thread.h"

// The block at an address in the heap with another size, perhaps elsewhere; NULL where there is no memory, the block then stays
// as it is. What is no live block is a finding, and another block is made.
void *zg_reallocate(struct zg_thread *thread, uint64_t pointer, uint64_t size);
// The same from a slot to a slot, where that takes little more than it does to allocate and free. NULL, and nothing is done, elsewhere.
void *zg_reallocate_quickly(struct zg_thread *thread, uint64_t address, uint64_t size, const uint64_t *frame);

#endif
