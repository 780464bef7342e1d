// The guarded heap as its callers see it: allocate, free, resize, with the semantics of glibc's functions.
// Hot path. `frame` is the frame address of the published function, which must stay on the stack during the call.

#ifndef ZG_HEAP_H
#define ZG_HEAP_H

#include "include/zg_block.h"
#include "platform/base.h"

struct zg_thread;

// Functions that free: name in findings, kinds of blocks that they may free (bit mask).
#define ZG_K(kind) (1u << zg_kind_##kind)
#define ZG_DEALLOCATORS(X)                                                                                             \
    X(free, "free", ZG_K(malloc) | ZG_K(aligned))                                                                      \
    X(realloc, "realloc", ZG_K(malloc) | ZG_K(aligned))                                                                \
    X(moved, "realloc", ~0u) /* the old block of a realloc, already checked */                                         \
    X(free_sized, "free_sized", ZG_K(malloc))                                                                          \
    X(free_aligned_sized, "free_aligned_sized", ZG_K(aligned))                                                         \
    X(delete, "operator delete", ZG_K(new))                                                                            \
    X(delete_array, "operator delete[]", ZG_K(new_array))                                                              \
    X(delete_aligned, "operator delete(std::align_val_t)", ZG_K(new_aligned))                                          \
    X(delete_array_aligned, "operator delete[](std::align_val_t)", ZG_K(new_array_aligned))

enum zg_deallocator {
#define ZG_X(name, text, mask) zg_deallocator_##name,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
        zg_deallocator_count
};

#define ZG_ANY_SIZE UINT64_MAX

// NULL and errno ENOMEM where the size is over PTRDIFF_MAX or there is no memory. `alignment` is a power of two.
void *zg_heap_allocate(uint64_t size, uint64_t alignment, enum zg_kind kind, bool zero, const uint64_t *frame);
// `size` is what a sized function was told, ZG_ANY_SIZE otherwise. errno is kept.
void zg_heap_free(void *address, enum zg_deallocator deallocator, uint64_t size, const uint64_t *frame);
void *zg_heap_reallocate(void *address, uint64_t size, const uint64_t *frame);
uint64_t zg_heap_usable_size(void *address);
void zg_heap_free_deferred(struct zg_thread *thread, void *address);
// Gives free pages back to the system; with `quarantine` the dead blocks' too. Returns the bytes.
uint64_t zg_heap_trim(bool quarantine, const uint64_t *frame);
// Memory is short. Dead blocks are verified and their pages given back, their addresses staying dead; what cannot be retired is
// free for reuse afterwards, and nothing is left in the quarantine. Returns the bytes given back. The thread is entered.
uint64_t zg_heap_relieve(struct zg_thread *thread);
// Does what was asked for through the statistics page. The thread is entered.
void zg_heap_answer_requests(struct zg_thread *thread);
void zg_heap_after_fork_in_child(void);

#endif
