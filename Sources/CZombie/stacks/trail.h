// The trail: a thread's stack as its last capture saw it, with the depot's hash for every frame. A capture walks only as
// far as the frames are new, compares what the older ones depended on, and continues the known hash over the new frames. So a
// stack that is entered for the first time costs its new frames, not its depth.
// Hot path on a miss of the stack cache; one trail for each thread, no lock but the depot's for new nodes.

#ifndef ZG_TRAIL_H
#define ZG_TRAIL_H

#include "platform/base.h"
#include "stacks/unwind.h"

enum { ZG_TRAIL_FRAMES = 512, ZG_TRAIL_NEW = 128, ZG_TRAIL_STEP = 16 };

// Invariants: 1. frames are ordered from the outermost; sp falls strictly. 2. hash is the depot's, of the frames from
// `anchor` to this one. 3. pc was read from `place` (the innermost frame's: not read). 4. fp was read from `fp_place`, where some inner
// frame had saved it; 0: it still is in the register.
struct zg_trail_frame {
    uint64_t pc, sp, fp; // as they are in this frame
    uint64_t place, fp_place;
    uint64_t hash;
    uint32_t node; // the depot's, of the same frames; 0: not known yet
    uint16_t anchor;
    uint16_t words; // that this frame and all further out depend on, at the most
    bool fp_used;   // the next frame outwards was found from fp
};

struct zg_trail {
    uint64_t epoch; // of the unwind rules
    uint32_t count;
    uint64_t end_place,
        end_word; // why frames[0] is the outermost, where a word of the stack says so; place 0: it does not
    struct zg_trail_frame frames[ZG_TRAIL_FRAMES];
    // Of the capture that is going on: the program's stack may be small.
    struct zg_trail_frame new_frames[ZG_TRAIL_NEW];
    uint64_t added_frames[ZG_STACK_MAX_DEPTH + ZG_TRAIL_STEP];
    uint32_t added_ids[ZG_STACK_MAX_DEPTH + ZG_TRAIL_STEP];
};

// The stack id, as zg_depot_find gives it, for a caller on the thread's own stack, with `depth` to `depth + ZG_TRAIL_STEP` frames where there are as
// many. 0 where the trail cannot follow, where the depot is full, and for a new stack unless `adds`: use zg_unwind_fast.
uint32_t zg_trail_capture(struct zg_trail *trail, struct zg_caller caller, const struct zg_stack_bounds *bounds,
                          int depth, bool adds);
// What the stack just captured depends on, as zg_unwind_fast would say it (but for the frames).
void zg_trail_describe(const struct zg_trail *trail, uint64_t sp, struct zg_walk *walk);

#endif
