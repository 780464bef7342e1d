// Blocks are made, by a thread that is entered. Hot path.

#ifndef ZG_ALLOCATE_H
#define ZG_ALLOCATE_H

#include "blocks/size_class.h"
#include "threads/thread.h"

// A block; NULL where the heap has no memory or address space for it, or, while sampling, where it is not to be fenced.
// `alignment` is a power of two, at least 16.
ZG_NOINLINE void *zg_allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_kind kind,
                              bool zero);
// The same for a size and an alignment that the class has, where neither every block is fenced nor blocks are sampled.
void *zg_allocate_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint64_t alignment, enum zg_kind kind,
                       bool zero);

#endif
