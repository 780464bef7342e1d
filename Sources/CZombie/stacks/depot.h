// The stack depot: stores every distinct stack once, as a tree of frames. A stack's 32-bit id is the number of its
// innermost node. A 64-bit hash over its frames, from the outermost inwards, identifies a stack: the hash of a longer
// stack is computed from that of the shorter stack. Hot path; lock-free if the stack is known, otherwise under the
// depot's lock.
//
// Stacks that differ only in the innermost frame are a family and are stored side by side: the stacks in which a
// function allocates and frees are in one or two cache lines.
//
// The depot has a limited size, which must last even if a program's stacks do not repeat: zg_depot_depth returns how
// many frames of a new stack to keep.

#ifndef ZG_DEPOT_H
#define ZG_DEPOT_H

#include "include/zg_block.h"
#include "platform/base.h"

// Reserves room for at most `bytes` of nodes. False if the address space does not allow it.
bool zg_depot_init(uint64_t bytes);

// True once new stacks may have to be shortened (zg_depot_depth).
extern bool zg_depot_is_scarce;
// Returns how many frames of a new stack to look up and add if the depot is scarce: `depth`, or fewer if too many
// recent stacks were new. `captures`: captures so far.
int zg_depot_depth(uint64_t captures, int depth);

// Returns the hash of a stack whose innermost frame is `frame`. `outer`: hash of its other frames (0: no frames).
ZG_INLINE uint64_t zg_depot_hash(uint64_t outer, uint64_t frame) {
    uint64_t h = (outer ^ frame) * UINT64_C(0x9fb21c651e98df25);
    return (h ^ h >> 29) * UINT64_C(0xd6e8feb86659fd93);
}
// Length of arrays with a bit, a byte or a word for each stack. Stacks with ids from this number on share the elements
// of stacks with lower ids. Untouched pages cost nothing.
#define ZG_DEPOT_PLACES (UINT32_C(1) << 21)
// Flag in ids from zg_depot_find: zg_depot_mark_context_done was called for the stack.
#define ZG_DEPOT_CONTEXT_DONE (UINT32_C(1) << 26)
// Returns the id of the stack with this hash, 0 if it was not captured before. `outer`: hash of all frames but the
// innermost.
uint32_t zg_depot_find(uint64_t hash, uint64_t outer);
// Prefetches the memory that zg_depot_find reads for a stack with this outer hash.
void zg_depot_expect(uint64_t outer);
// Returns the id of a stack, and adds the stack if it is new. `frames`: innermost frame first. 0 if the depot is full
// or count is 0. Beyond its limit the depot still accepts stacks of one frame, of which there are few.
uint32_t zg_depot_put(const uint64_t *frames, int count);
// Like zg_depot_put, for the innermost frames of a longer stack. A whole stack of the same frames has another id.
uint32_t zg_depot_put_shortened(const uint64_t *frames, int count);
// Whether the stack was added by zg_depot_put_shortened.
bool zg_depot_is_shortened(uint32_t stack);
// Frames, from the outermost inwards.
struct zg_depot_frames {
    const uint64_t *pcs;
    const uint64_t *hashes;     // hash of the stack up to each frame; NULL if not known yet
    uint32_t *ids;              // receives the id of the stack up to each frame; NULL if not wanted
    int64_t pc_step, hash_step; // distance from one frame's value to the next, in words
    uint32_t count;             // 1 or more
};
// Extends the stack with id `outer` and hash `outer_hash` (0: no frames) inwards by these frames. Returns the id of the
// extended stack, and adds the stack if it is new. 0 if the depot is full: then not all ids were written.
uint32_t zg_depot_add(uint32_t outer, uint64_t outer_hash, const struct zg_depot_frames *frames);
// From now on zg_depot_find returns this stack with ZG_DEPOT_CONTEXT_DONE.
void zg_depot_mark_context_done(uint32_t stack);
// Writes at most `depth` frames, innermost first. Returns their number.
int zg_depot_get(uint32_t stack, uint64_t *frames, int depth);
enum { ZG_DEPOT_INNER = 8 };
// Returns a hash of the stack's `depth` innermost frames, at most ZG_DEPOT_INNER. Equal hashes mean equal innermost
// frames, that is, the same code.
uint64_t zg_depot_hash_inner(uint32_t stack, int depth);
const struct zg_depot_node *zg_depot_nodes(uint64_t *count);
void zg_depot_lock(void);
void zg_depot_unlock(void);
void zg_depot_reset_lock(void);

#endif
