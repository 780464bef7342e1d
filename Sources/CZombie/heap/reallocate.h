// Resizes blocks. The calling thread is in the runtime. Hot path: zg_reallocate_quickly.

#ifndef ZG_REALLOCATE_H
#define ZG_REALLOCATE_H

#include "threads/thread.h"

// Resizes the block at an address in the heap and returns its start, which may have moved. NULL if there is no memory;
// the block is then unchanged. If the address is not a live block, reports a finding and returns a new block.
void *zg_reallocate(struct zg_thread *thread, uint64_t pointer, uint64_t size);
// Resizes within a slot, or from one slot to another, if the resize costs little more than an allocation and a free.
// Otherwise returns NULL without side effects.
void *zg_reallocate_quickly(struct zg_thread *thread, uint64_t address, uint64_t size, const uint64_t *frame);

#endif
