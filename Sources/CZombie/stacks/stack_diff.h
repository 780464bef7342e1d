// The stack diff cache: a thread's stack at its last capture, with the depot's hash for every frame. A capture walks
// new frames only, compares the words that the older frames depend on, and continues the known hash over the new
// frames. So a stack that is entered for the first time costs its new frames, not its depth. Hot path on a miss of the
// stack cache; one per thread, no lock but the depot's for new nodes.

#ifndef ZG_STACK_DIFF_H
#define ZG_STACK_DIFF_H

#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_STACK_DIFF_FRAMES = 512, ZG_STACK_DIFF_NEW = 128, ZG_STACK_DIFF_STEP = 16 };

// A stack word that the walk read: its address and its value.
struct zg_stack_diff_word {
    uint64_t place, word;
};

// Invariants: 1. Frames are ordered from the outermost; sp strictly decreases. 2. fp was read from `fp_place`, where an
// inner frame had saved it; 0: it is still in the register. 3. hash is the depot's hash of the frames from this frame's
// anchor (stack_diff.c) to this frame.
struct zg_stack_diff_frame {
    uint64_t sp, fp; // values of sp and fp in this frame
    uint64_t fp_place;
    uint64_t hash;
};

// The words that every capture compares are stored apart from the other fields: 16 bytes per frame, and 16 more if the
// frame's caller was found from fp.
struct zg_stack_diff_cache {
    uint64_t epoch; // epoch of the unwind rules
    uint32_t count;
    uint32_t depth;              // stack depth that the anchors are computed for
    uint32_t first_compared;     // current capture: frames from this one on were compared, and are unchanged
    uint32_t use_count;          // number of elements of `uses` that are filled, while frames are appended
    uint32_t first_without_node; // frames from this one on have no node
    // Stack word whose value shows that the first frame is the outermost; end_place 0 if no word shows that.
    uint64_t end_place, end_word;
    // pc of each frame, and the address where the walk read it. The innermost frame's pc was not read from the stack.
    struct zg_stack_diff_word returns[ZG_STACK_DIFF_FRAMES];
    // fp and fp_place of frames from whose fp the caller was found.
    struct zg_stack_diff_word uses[ZG_STACK_DIFF_FRAMES];
    struct zg_stack_diff_frame frames[ZG_STACK_DIFF_FRAMES];
    uint16_t use_counts[ZG_STACK_DIFF_FRAMES]; // number of `uses` of this frame and all outer ones
    uint32_t nodes[ZG_STACK_DIFF_FRAMES];      // depot node of the frames that `hash` covers; 0 if not known yet
    // New frames of the current capture, filled from the end. Kept here because the program's stack may be small.
    // Bit 0 of fp_place: the frame's caller was found from fp.
    struct zg_rule_frame new_frames[ZG_STACK_DIFF_NEW];
};

// Returns the stack id, as zg_depot_find does, for a caller on the thread's own stack. The stack has `depth` to `depth
// + ZG_STACK_DIFF_STEP` frames if it is that deep. 0 if the walk needs full rules, if the depot is full, or if the
// stack is new and `adds` is false: use zg_unwind_fast.
uint32_t zg_stack_diff_capture(struct zg_stack_diff_cache *stack_diff, struct zg_caller caller,
                               const struct zg_stack_bounds *bounds, int depth, bool adds);
// Lists the words that the stack just captured depends on, as zg_unwind_fast does (but without the frames).
void zg_stack_diff_describe(const struct zg_stack_diff_cache *stack_diff, uint64_t sp, struct zg_walk *walk);

#endif
