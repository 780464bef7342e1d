// Blocks change their size, by a thread that is entered. Slow path.

#ifndef ZG_REALLOCATE_H
#define ZG_REALLOCATE_H

#include "threads/thread.h"

// The block at an address in the heap with another size, perhaps elsewhere; NULL where there is no memory, the block then stays
// as it is. What is no live block is a finding, and another block is made.
void *zg_reallocate(struct zg_thread *thread, uint64_t address, uint64_t size);

#endif
