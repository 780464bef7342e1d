// Fenced blocks: blocks with pages of their own, which are protected when the block dies, so that every later access faults
// at its instruction, a plain read of a number included. Costs system calls and mappings, so only the first blocks of each
// allocation context are fenced (fence_per_context), and a limited number in all (fence_blocks).
// zg_fence_wants: hot path where fencing is on, lock-free. The rest: free's slow path and signal context.

#ifndef ZG_FENCE_H
#define ZG_FENCE_H

#include "base.h"
#include "include/zg_block.h"
#include "lookup.h"

// Whether the next block of this context is to be fenced; counts it.
bool zg_fence_wants(uint32_t context);
// An access to the header of a dead object says little: the page is opened with a trap header in it, the instruction goes on
// and the next one faults in the trap region, with the method or the kind of reference counting. False: nothing was changed.
bool zg_fence_open_header(const struct zg_block_view *view);
// on_finding=continue: the contents come back.
bool zg_fence_open(const struct zg_block_view *view);

#endif
