// The stack depot: every distinct stack once, as a tree of frames; a stack is a 32-bit id (its innermost node).
// zg_depot_put: hot path, lock-free where the stack is known (zg_depot_child likewise), otherwise under the depot's lock. zg_depot_get: any context.

#ifndef ZG_DEPOT_H
#define ZG_DEPOT_H

#include "base.h"
#include "include/zg_block.h"

bool zg_depot_init(void);
// The id of a stack, innermost frame first; `hash` as zg_unwind_fast gives it. 0 where the depot is full or count is 0.
uint32_t zg_depot_put(const uint64_t *frames, int count, uint64_t hash);
// The stack that `frame` called from `parent` makes; parent 0: the outermost frame. 0 where the depot is full.
uint32_t zg_depot_child(uint32_t parent, uint64_t frame);
// Writes at most `depth` frames, innermost first; returns how many.
int zg_depot_get(uint32_t stack, uint64_t *frames, int depth);
const struct zg_depot_node *zg_depot_nodes(uint64_t *count);
void zg_depot_lock(void);
void zg_depot_unlock(void);
void zg_depot_reset_lock(void);

#endif
