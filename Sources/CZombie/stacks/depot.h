// The stack depot: every distinct stack once, as a tree of frames; a stack is a 32-bit id (its innermost node).
// A stack is recognised by a 64-bit hash over its frames from the outermost inwards, so that the hash of a longer stack
// follows from a shorter one's. Hot path; lock-free where the stack is known, otherwise under the depot's lock.
//
// Stacks that differ in the innermost frame only are a family, and found side by side: what a function allocates and frees
// lies in one or two cache lines.
//
// The depot is bounded, and in a program whose stacks do not repeat it has to last: zg_depot_depth says how many frames of a
// new stack it can keep.

#ifndef ZG_DEPOT_H
#define ZG_DEPOT_H

#include "include/zg_block.h"
#include "platform/base.h"

// Reserves room for `bytes` of nodes at the most. False where the address space does not allow it.
bool zg_depot_init(uint64_t bytes);

// False as long as the depot takes whole stacks without conditions.
extern bool zg_depot_is_scarce;
// How many frames of a stack that is captured now should be looked up and added where it is scarce: `depth`, or fewer where too many
// of late were new. `captures`: how many there have been so far.
int zg_depot_depth(uint64_t captures, int depth);

// The hash of the stack that a call from the stack with hash `outer` (0: none) makes.
ZG_INLINE uint64_t zg_depot_hash(uint64_t outer, uint64_t frame) {
    uint64_t h = (outer ^ frame) * UINT64_C(0x9fb21c651e98df25);
    return (h ^ h >> 29) * UINT64_C(0xd6e8feb86659fd93);
}
// Tables that hold a byte or a word for each stack have so many places; those beyond share. Untouched pages cost nothing.
#define ZG_DEPOT_PLACES (UINT32_C(1) << 21)
// With an id: zg_depot_mark_context_done was called for the stack.
#define ZG_DEPOT_CONTEXT_DONE (UINT32_C(1) << 26)
// The id of the stack with this hash; `outer` is the hash of all frames but the innermost. 0 where it was not captured before.
uint32_t zg_depot_find(uint64_t hash, uint64_t outer);
// zg_depot_find will be called for a stack with this outer hash: asks the memory for what it reads.
void zg_depot_expect(uint64_t outer);
// The id of a stack, innermost frame first, added where it is new. 0 where the depot is full or count is 0. Past its bound the
// depot still takes stacks of one frame, which are few.
uint32_t zg_depot_put(const uint64_t *frames, int count);
// The same of the innermost frames of a stack that has more: another stack than the whole one of these frames.
uint32_t zg_depot_put_shortened(const uint64_t *frames, int count);
// The stack was added so.
bool zg_depot_is_shortened(uint32_t stack);
// Frames from the outermost inwards.
struct zg_depot_frames {
    const uint64_t *pcs;
    const uint64_t *hashes;     // of the stack up to each of them; NULL: not known yet
    uint32_t *ids;              // where the id of the stack up to each of them is written; NULL: nowhere
    int64_t pc_step, hash_step; // words from one frame's to the next one's
    uint32_t count;             // 1 or more
};
// The id of the stack that these frames make inside the one with id and hash `outer` (0: none), added where it is new. 0 where the
// depot is full: then not all ids were written.
uint32_t zg_depot_add(uint32_t outer, uint64_t outer_hash, const struct zg_depot_frames *frames);
// The next zg_depot_find of this stack says so.
void zg_depot_mark_context_done(uint32_t stack);
// Writes at most `depth` frames, innermost first; returns how many.
int zg_depot_get(uint32_t stack, uint64_t *frames, int depth);
const struct zg_depot_node *zg_depot_nodes(uint64_t *count);
void zg_depot_lock(void);
void zg_depot_unlock(void);
void zg_depot_reset_lock(void);

#endif
