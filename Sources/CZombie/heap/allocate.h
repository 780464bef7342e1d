// Allocates blocks. The calling thread is in the runtime. Hot path.

#ifndef ZG_ALLOCATE_H
#define ZG_ALLOCATE_H

#include "blocks/size_class.h"
#include "threads/thread.h"

// Returns NULL if the heap has no memory or address space, or, in mode zg_bypass_sample, if the block is not to be
// isolated. `alignment` is a power of two, at least 16.
ZG_NOINLINE void *zg_allocate(struct zg_thread *thread, uint64_t size, uint64_t alignment, enum zg_alloc_family family,
                              bool zero);
// Allocates within a few instructions if the thread has a free slot and knows its stack. Otherwise returns NULL without
// side effects. `stack` is the result of zg_capture_cached. Sets `*is_zero` if the block reads as zeros. `size` is less
// than zg_allocate_quick_end.
void *zg_allocate_quickly(struct zg_thread *thread, uint64_t size, enum zg_alloc_family family, uint32_t stack,
                          bool *is_zero, bool is_tagged);
extern uint64_t zg_allocate_quick_end;
// Tags a block that zg_allocate_quickly returned with `is_tagged` (blocks/tags.h). Call after zeroing it. Returns the
// pointer for the program.
void *zg_allocate_give_tag(void *start, uint64_t size, uint64_t alignment);
// Sets zg_allocate_quick_end. Call again when sampling starts or stops.
void zg_allocate_init(void);
// Like zg_allocate, for a size and an alignment that slots of `class` provide, but without the modes that isolate or
// sample every block.
void *zg_allocate_slot(struct zg_thread *thread, uint32_t class, uint64_t size, uint64_t alignment,
                       enum zg_alloc_family family, bool zero);

#endif
