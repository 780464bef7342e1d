// The API entry of the guarded heap: allocates, frees, and resizes with the semantics of glibc's functions.
// Hot path. `frame` is the frame address of the published function, which must stay on the stack during the call.

#ifndef ZG_ENTRY_H
#define ZG_ENTRY_H

#include "heap/mismatch.h"
#include "include/zg_block.h"
#include "platform/base.h"

// Returns NULL and sets errno to ENOMEM if the size exceeds PTRDIFF_MAX or there is no memory. `alignment` is a power
// of two.
void *zg_entry_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                        const uint64_t *frame);
// Like zg_entry_allocate, specialized for malloc.
void *zg_entry_malloc(uint64_t size, const uint64_t *frame);
// Serves a bypassed allocation that libc refused (zg_bypass_may_fail). The block is not isolated.
void *zg_entry_allocate_from_reserve(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                     const uint64_t *frame);
// Returns true if zg_entry_allocate_from_reserve should be called before libc.
bool zg_entry_reserve_is_next(void);
// `size` is the argument of a sized function, otherwise ZG_ANY_SIZE. errno is kept.
void zg_entry_free(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);
// Like zg_entry_free, specialized for free.
void zg_entry_plain_free(void *address, const uint64_t *frame);
void *zg_entry_reallocate(void *address, uint64_t size, const uint64_t *frame);
// Returns the block's usable size; 0 for NULL. Reports a finding unless the address is NULL, the start of a live block
// of the heap, or a block of libc or of another allocator.
uint64_t zg_entry_usable_size(void *address, const uint64_t *frame);
// Releases free pages; with `quarantine`, also those of quarantined blocks. Returns the bytes released.
uint64_t zg_entry_trim(bool quarantine, const uint64_t *frame);

// Like zg_entry_allocate and zg_entry_free, but their time is charged to the overhead budget (limits/budget.h).
void *zg_entry_allocate_measured(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                 const uint64_t *frame);
void zg_entry_free_measured(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);

#endif
