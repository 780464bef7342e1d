// The trail: a thread's stack as its last capture saw it, with the depot's hash for every frame. A capture walks only as
// far as the frames are new, compares what the older ones depended on, and continues the known hash over the new frames. So a
// stack that is entered for the first time costs its new frames, not its depth.
// Hot path on a miss of the stack cache; one trail for each thread, no lock but the depot's for new nodes.

#ifndef ZG_STACK_DIFF_H
#define ZG_STACK_DIFF_H

#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_STACK_DIFF_FRAMES = 512, ZG_STACK_DIFF_NEW = 128, ZG_STACK_DIFF_STEP = 16 };

// A word of the stack that the walk read, and what it was.
struct zg_stack_diff_word {
    uint64_t place, word;
};

// Invariants: 1. frames are ordered from the outermost; sp falls strictly. 2. fp was read from `fp_place`, where some inner
// frame had saved it; 0: it still is in the register. 3. hash is the depot's, of the frames from this one's anchor (trail.c)
// to itself.
struct zg_stack_diff_frame {
    uint64_t sp, fp; // as they are in this frame
    uint64_t fp_place;
    uint64_t hash;
};

// What is compared for every frame at every capture lies apart from the rest: 16 bytes for a frame, and as much again where
// the walk counted from its fp.
struct zg_stack_diff_cache {
    uint64_t epoch; // of the unwind rules
    uint32_t count;
    uint32_t depth;      // that the frames' anchors are for
    uint32_t compared;   // in the capture that is going on: the frames from here on are as they were
    uint32_t use_count;  // of `uses`, while frames are added
    uint32_t with_nodes; // the frames from here on have none
    // Why the first frame is the outermost, where a word of the stack says so; place 0: it does not.
    uint64_t end_place, end_word;
    // Each frame's pc, and where it was read (the innermost one's: it was not).
    struct zg_stack_diff_word returns[ZG_STACK_DIFF_FRAMES];
    // The fp of frames whose caller was found from it, and its fp_place.
    struct zg_stack_diff_word uses[ZG_STACK_DIFF_FRAMES];
    struct zg_stack_diff_frame frames[ZG_STACK_DIFF_FRAMES];
    uint16_t use_counts[ZG_STACK_DIFF_FRAMES]; // of `uses`, in this frame and all further out
    uint32_t nodes[ZG_STACK_DIFF_FRAMES];      // the depot's, of the same frames as hash; 0: not known yet
    // Of the capture that is going on, filled from the end: the program's stack may be small.
    struct zg_rule_frame new_frames[ZG_STACK_DIFF_NEW]; // bit 0 of fp_place: the next frame outwards was found from fp
};

// The stack id, as zg_depot_find gives it, for a caller on the thread's own stack, with `depth` to `depth + ZG_STACK_DIFF_STEP` frames where there are as
// many. 0 where the trail cannot follow, where the depot is full, and for a new stack unless `adds`: use zg_unwind_fast.
uint32_t zg_stack_diff_capture(struct zg_stack_diff_cache *stack_diff, struct zg_caller caller,
                               const struct zg_stack_bounds *bounds, int depth, bool adds);
// What the stack just captured depends on, as zg_unwind_fast would say it (but for the frames).
void zg_stack_diff_describe(const struct zg_stack_diff_cache *stack_diff, uint64_t sp, struct zg_walk *walk);

#endif
