// The door to the guarded heap: allocate, free, resize, with the semantics of glibc's functions.
// Hot path. `frame` is the frame address of the published function, which must stay on the stack during the call.

#ifndef ZG_ENTRY_H
#define ZG_ENTRY_H

#include "heap/mismatch.h"
#include "include/zg_block.h"
#include "platform/base.h"

// NULL and errno ENOMEM where the size is over PTRDIFF_MAX or there is no memory. `alignment` is a power of two.
void *zg_entry_allocate(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                        const uint64_t *frame);
// The same for malloc.
void *zg_entry_malloc(uint64_t size, const uint64_t *frame);
// Where libc gets no memory any more (zg_bypass_may_fail), what is passed on in vain: a block without pages of its own. / It is to be asked
// before libc is.
void *zg_entry_allocate_from_reserve(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                     const uint64_t *frame);
bool zg_entry_reserve_is_next(void);
// `size` is what a sized function was told, ZG_ANY_SIZE otherwise. errno is kept.
void zg_entry_free(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);
// The same for free.
void zg_entry_plain_free(void *address, const uint64_t *frame);
void *zg_entry_reallocate(void *address, uint64_t size, const uint64_t *frame);
// What is no live block's start is a finding.
uint64_t zg_entry_usable_size(void *address, const uint64_t *frame);
// Gives free pages back to the system; with `quarantine` the dead blocks' too. Returns the bytes.
uint64_t zg_entry_trim(bool quarantine, const uint64_t *frame);

// As the first two; what they take counts as spent of the overhead budget (limits/budget.h).
void *zg_entry_allocate_measured(uint64_t size, uint64_t alignment, enum zg_alloc_family family, bool zero,
                                 const uint64_t *frame);
void zg_entry_free_measured(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);

#endif
