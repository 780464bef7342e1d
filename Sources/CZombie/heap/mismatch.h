// Deallocation functions, and the check whether a function that freed a block matches the block's allocation function.
// zg_mismatch_is_possible: hot path. All other functions are cold; the checks are called only for a possible mismatch.
// No lock.

#ifndef ZG_MISMATCH_H
#define ZG_MISMATCH_H

#include "blocks/lookup.h"

// Table of deallocation functions: identifier, name in findings, bit mask of the allocation families that the function
// may free.
#define ZG_FAMILY_BIT(kind) (1u << zg_family_##kind)
#define ZG_DEALLOCATORS(X)                                                                                             \
    X(free, "free", ZG_FAMILY_BIT(malloc) | ZG_FAMILY_BIT(aligned))                                                    \
    X(realloc, "realloc", ZG_FAMILY_BIT(malloc) | ZG_FAMILY_BIT(aligned))                                              \
    X(realloc_old, "realloc", ~0u) /* the old block of a realloc, already checked */                                   \
    X(free_sized, "free_sized", ZG_FAMILY_BIT(malloc))                                                                 \
    X(free_aligned_sized, "free_aligned_sized", ZG_FAMILY_BIT(aligned))                                                \
    X(delete, "operator delete", ZG_FAMILY_BIT(new))                                                                   \
    X(delete_array, "operator delete[]", ZG_FAMILY_BIT(new_array))                                                     \
    X(delete_aligned, "operator delete(std::align_val_t)", ZG_FAMILY_BIT(new_aligned))                                 \
    X(delete_array_aligned, "operator delete[](std::align_val_t)", ZG_FAMILY_BIT(new_array_aligned))

enum zg_deallocator {
#define ZG_X(name, text, mask) zg_deallocator_##name,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
        zg_deallocator_count
};

// Passed as the size by functions without a size argument.
#define ZG_ANY_SIZE UINT64_MAX

static const uint32_t zg_mismatch_accepted[zg_deallocator_count] = {
#define ZG_X(name, text, mask) mask,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

// Returns true if `deallocator` must not free a block of this family, or if `size` is given and differs from the
// block's size, `requested`. zg_mismatch_check decides whether the mismatch is certain.
ZG_INLINE bool zg_mismatch_is_possible(enum zg_alloc_family family, enum zg_deallocator deallocator, uint64_t requested,
                                       uint64_t size) {
    return !(zg_mismatch_accepted[deallocator] >> family & 1) || (size != ZG_ANY_SIZE && size != requested);
}
// Reports a mismatch if the options and the evidence allow it. Returns false if nothing is reported. The calling thread
// is in the runtime; `caller_pc` is the return address of the freeing call.
bool zg_mismatch_check(const struct zg_block_view *view, uint64_t address, enum zg_deallocator deallocator,
                       uint64_t freed_size, uint64_t caller_pc);
// Checks a pointer that was passed to an operator delete and is not the start of a block. If delete was used for
// delete[] or the other way round, the pointer is off by the size of the array cookie (the object count). Returns true
// if it has reported such a pointer; `*start` is then the start of the live block.
bool zg_mismatch_is_cookie(uint64_t address, enum zg_deallocator deallocator, uint64_t *start);
const char *zg_mismatch_deallocator_name(enum zg_deallocator deallocator);

#endif
