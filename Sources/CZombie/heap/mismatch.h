// Functions that free, and whether a block was freed by one that does not belong to the function that made it.
// zg_mismatch_is_possible: hot path. The rest is cold: asked only where the families differ. No lock.

#ifndef ZG_MISMATCH_H
#define ZG_MISMATCH_H

#include "blocks/lookup.h"

// Functions that free: name in findings, kinds of blocks that they may free (bit mask).
#define ZG_K(kind) (1u << zg_family_##kind)
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

// What a function that is told no size passes as one.
#define ZG_ANY_SIZE UINT64_MAX

static const uint32_t zg_mismatch_accepted[zg_deallocator_count] = {
#define ZG_X(name, text, mask) mask,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

// The block of this kind and size should not have been freed like this, or with `size`; which may not be certain.
ZG_INLINE bool zg_mismatch_is_possible(enum zg_alloc_family family, enum zg_deallocator deallocator, uint64_t requested,
                                       uint64_t size) {
    return !(zg_mismatch_accepted[deallocator] >> family & 1) || (size != ZG_ANY_SIZE && size != requested);
}
// Reports a mismatch where the options and the evidence allow it. The calling thread is entered; `caller_pc` is the
// return address of the freeing call.
// False: nothing is to be reported.
bool zg_mismatch_check(const struct zg_block_view *view, uint64_t address, enum zg_deallocator deallocator,
                       uint64_t freed_size, uint64_t caller_pc);
// A pointer that is no block's start, given to an operator delete: the other of delete and delete[] was meant, which have the
// count of an array's objects between them. True: that was reported, and the block whose start is put into `*start` is live.
bool zg_mismatch_is_cookie(uint64_t address, enum zg_deallocator deallocator, uint64_t *start);
const char *zg_mismatch_deallocator_name(enum zg_deallocator deallocator);

#endif
