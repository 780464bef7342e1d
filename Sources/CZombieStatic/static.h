// The runtime's fallback allocator in a static executable, which does not contain libc's allocator.

#ifndef ZG_STATIC_BLOCKS_H
#define ZG_STATIC_BLOCKS_H

#include <stddef.h>

// Each block has a mapping of its own, with the layout of glibc's mapped chunks. For nested calls and an exhausted
// heap.
void *zg_static_malloc(size_t bytes);
void *zg_static_calloc(size_t count, size_t size);
void *zg_static_realloc(void *block, size_t bytes);
void *zg_static_memalign(size_t alignment, size_t bytes);
void zg_static_free(void *block);
size_t zg_static_usable_size(void *block);
// Implements operator new. When memory runs out, calls the new-handler and tries again, or throws std::bad_alloc.
void *zg_static_new(size_t bytes);
void *zg_static_new_aligned(size_t bytes, size_t alignment);
// Like zg_static_new, but returns NULL instead of throwing.
void *zg_static_new_nothrow(size_t bytes);
void *zg_static_new_aligned_nothrow(size_t bytes, size_t alignment);

#endif
