// Whether a block was freed by a function that does not belong to the one that made it.
// Cold: asked only where the families differ.

#ifndef ZG_MISMATCH_H
#define ZG_MISMATCH_H

#include "heap/heap.h"
#include "heap/lookup.h"

// Reports a mismatch where the options and the evidence allow it. The calling thread is entered; `caller_pc` is the
// return address of the freeing call.
void zg_mismatch_check(const struct zg_block_view *view, uint64_t address, enum zg_deallocator deallocator,
                       uint64_t freed_size, uint64_t caller_pc);
const char *zg_mismatch_deallocator_name(enum zg_deallocator deallocator);

#endif
