// The stack depot: every distinct stack once, as a tree of frames; a stack is a 32-bit id (its innermost node).
// A stack is recognised by a 64-bit hash over its frames from the outermost inwards, so that the hash of a longer stack
// follows from a shorter one's. Hot path; lock-free where the stack is known, otherwise under the depot's lock.

#ifndef ZG_DEPOT_H
#define ZG_DEPOT_H

#include "base.h"
#include "include/zg_block.h"

// Reserves room for `bytes` of nodes at the most. False where the address space does not allow it.
bool zg_depot_init(uint64_t bytes);

// The hash of the stack that a call from the stack with hash `outer` (0: none) makes.
ZG_INLINE uint64_t zg_depot_hash(uint64_t outer, uint64_t frame) {
    uint64_t h = (outer ^ frame) * UINT64_C(0x9fb21c651e98df25);
    return (h ^ h >> 29) * UINT64_C(0xd6e8feb86659fd93);
}
// The id of the stack with this hash; 0 where it is not in the depot.
uint32_t zg_depot_find(uint64_t hash);
// The id of a stack, innermost frame first, added where it is new. 0 where the depot is full or count is 0.
uint32_t zg_depot_put(const uint64_t *frames, int count);
// Writes at most `depth` frames, innermost first; returns how many.
int zg_depot_get(uint32_t stack, uint64_t *frames, int depth);
const struct zg_depot_node *zg_depot_nodes(uint64_t *count);
void zg_depot_lock(void);
void zg_depot_unlock(void);
void zg_depot_reset_lock(void);

#endif
