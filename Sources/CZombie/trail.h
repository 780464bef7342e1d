// The trail: a thread's stack as its last capture saw it, with the depot's node for every frame. A capture walks only as
// far as the frames are new, compares what the older ones depended on, and adds the new frames to the known nodes. So a
// stack that is entered for the first time costs its new frames, not its depth.
// Hot path on a miss of the stack cache; one trail for each thread, no lock but the depot's for new nodes.

#ifndef ZG_TRAIL_H
#define ZG_TRAIL_H

#include "base.h"
#include "unwind.h"

enum { ZG_TRAIL_FRAMES = 512, ZG_TRAIL_STEP = 16 };

// Invariants: 1. frames are ordered from the outermost; sp falls strictly. 2. node stands for the frames from `anchor` to
// this one. 3. pc was read from `place` (the innermost frame's: not read). 4. fp was read from `fp_place`, where some inner
// frame had saved it; 0: it still is in the register.
struct zg_trail_frame {
    uint64_t pc, sp, fp; // as they are in this frame
    uint64_t place, fp_place;
    uint32_t node;
    uint16_t anchor;
    bool fp_used; // the next frame outwards was found from fp
};

struct zg_trail {
    uint32_t epoch; // of the unwind rules
    uint32_t count;
    struct zg_trail_frame frames[ZG_TRAIL_FRAMES];
};

// The stack id for a caller on the thread's own stack, with `depth` to `depth + ZG_TRAIL_STEP` frames where there are as
// many; fills `walk` (but for frames and hash) for the stack cache. 0 where the trail cannot follow: use zg_unwind_fast.
uint32_t zg_trail_capture(struct zg_trail *trail, struct zg_caller caller, const struct zg_stack_bounds *bounds,
                          int depth, struct zg_walk *walk);

#endif
