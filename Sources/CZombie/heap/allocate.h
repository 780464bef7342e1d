// Blocks are made, by a thread that is entered. Hot path.

#ifndef ZG_ALLOCATE_H
#define ZG_ALLOCATE_H

#include "blocks/size_class.h"
#include "threads/thread.h"

// A block; NULL where the heap has no memory or address space for it, or, while sampling, where it is not to be fenced.
// `alignment` is a power of two, at least 16.
ZG_NOINLINE void *zg_allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_alloc_family family,
                              bool zero);
// A block where the thread has a free slot at hand and knows the stack, of which `stack` is what zg_capture_known says: that takes a few
// instructions. `*is_zero`: it reads as zeros. NULL, and nothing is done, elsewhere. `size` is less than zg_allocate_quick_end.
void *zg_allocate_quickly(struct zg_thread *thread, uint64_t size, enum zg_alloc_family family, uint32_t stack,
                          bool *is_zero, bool is_tagged);
extern uint64_t zg_allocate_quick_end;
// With `is_tagged`, where there are tags (blocks/tags.h), what that returned gets its own once it is zeroed: returns what the program is to get.
void *zg_allocate_give_tag(void *start, uint64_t size, uint64_t alignment);
// Once it is known whether every block is fenced and whether blocks are sampled, and again where that changes.
void zg_allocate_init(void);
// The same as zg_allocate for a size and an alignment that the class has, where neither every block is fenced nor blocks are sampled.
void *zg_allocate_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint64_t alignment,
                       enum zg_alloc_family family, bool zero);

#endif
