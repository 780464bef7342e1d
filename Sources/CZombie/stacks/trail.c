// The trail of a thread. Hot path on a miss of the stack cache; no lock of its own.

#include "stacks/trail.h"

#include "stacks/depot.h"

// How many frames, from the outermost, were found by words that are as they were. Frames before the innermost one's anchor
// do not count for its stack and are not looked at.
static uint32_t unchanged_count(const struct zg_trail *trail) {
    uint32_t last = trail->count - 1, first = trail->frames[last].anchor;
    if (!first && trail->end_place && *(const uint64_t *)trail->end_place != trail->end_word) return 0;
    for (uint32_t i = first; i <= last; i++) {
        const struct zg_trail_frame *frame = &trail->frames[i];
        if (i < last && *(const uint64_t *)frame->place != frame->pc) return i;
        if (frame->fp_used && frame->fp_place && *(const uint64_t *)frame->fp_place != frame->fp) return i;
    }
    return trail->count;
}

// The known innermost frame was reached another way: frame pointers that passed through it come from elsewhere now.
static void join(struct zg_trail *trail, const struct zg_trail_frame *frame) {
    struct zg_trail_frame *last = &trail->frames[trail->count - 1];
    uint64_t old = last->fp_place;
    last->place = frame->place;
    for (uint32_t i = trail->count; i-- && trail->frames[i].fp_place == old;)
        trail->frames[i].fp_place = frame->fp_place;
}

// The hash of a frame's chain without the frame.
static uint64_t outer_hash(const struct zg_trail *trail, uint32_t at) {
    const struct zg_trail_frame *frame = &trail->frames[at];
    uint64_t hash = 0;
    if (ZG_LIKELY(at > frame->anchor && frame[-1].anchor == frame->anchor)) return frame[-1].hash;
    for (uint32_t i = frame->anchor; i < at; i++) hash = zg_depot_hash(hash, trail->frames[i].pc);
    return hash;
}

// Continues the chain of the frames further out with the frame at this depth.
static void chain(struct zg_trail *trail, uint32_t at, int depth) {
    struct zg_trail_frame *frame = &trail->frames[at];
    uint32_t anchor = at ? frame[-1].anchor : 0;
    // Too deep: a new chain, begun where it can begin for the next frames, too.
    if (at + 1 - anchor > (uint32_t)depth + ZG_TRAIL_STEP)
        anchor = (at + 1 - (uint32_t)depth) / ZG_TRAIL_STEP * ZG_TRAIL_STEP;
    frame->anchor = (uint16_t)anchor;
    frame->hash = zg_depot_hash(outer_hash(trail, at), frame->pc);
    frame->words = (uint16_t)((at ? frame[-1].words : 0) + 1 + frame->fp_used);
}

// Adds the frames that the depot does not have under this chain.
static ZG_NOINLINE uint32_t put(struct zg_trail *trail) {
    uint32_t anchor = trail->frames[trail->count - 1].anchor, first = trail->count - 1;
    while (first > anchor && (trail->frames[first - 1].anchor != anchor || !trail->frames[first - 1].node)) first--;
    uint64_t *frames = trail->added_frames;
    uint32_t *ids = trail->added_ids, count = trail->count - first;
    for (uint32_t i = 0; i < count; i++) frames[i] = trail->frames[first + i].pc;
    const struct zg_trail_frame *outer = first > anchor ? &trail->frames[first - 1] : NULL;
    uint32_t stack = zg_depot_add(outer ? outer->node : 0, outer ? outer->hash : 0, frames, (int)count, ids);
    // Frames of an older chain are outside of this one's.
    for (uint32_t i = 0; i < count && stack; i++)
        if (trail->frames[first + i].anchor == anchor) trail->frames[first + i].node = ids[i];
    return stack;
}

static void depend(struct zg_walk *walk, uint64_t sp, uint64_t place, uint64_t word) {
    uint64_t distance = (place - sp) / 8;
    if (distance >> 16 || walk->word_count == ZG_WALK_WORDS) {
        walk->repeatable = false;
        return;
    }
    walk->words[walk->word_count++] = (word & ((UINT64_C(1) << 48) - 1)) | distance << 48;
}

// What the kept frames depend on, from the inside out: where another stack differs, its inner words differ first.
void zg_trail_describe(const struct zg_trail *trail, uint64_t sp, struct zg_walk *walk) {
    uint32_t last = trail->count - 1, first = trail->frames[last].anchor;
    uint64_t noted = 1;
    uint32_t words = trail->frames[last].words - (first ? trail->frames[first - 1].words : 0u);
    walk->repeatable = words <= ZG_WALK_WORDS;
    walk->uses_fp = false;
    walk->word_count = 0;
    for (uint32_t i = trail->count; i-- > first && walk->repeatable;) {
        const struct zg_trail_frame *frame = &trail->frames[i];
        if (i < last) depend(walk, sp, frame->place, frame->pc);
        if (!frame->fp_used || frame->fp_place == noted) continue;
        noted = frame->fp_place;
        if (noted) depend(walk, sp, noted, frame->fp);
        else walk->uses_fp = true;
    }
    if (!first && trail->end_place && walk->repeatable) depend(walk, sp, trail->end_place, trail->end_word);
}

uint32_t zg_trail_capture(struct zg_trail *trail, struct zg_caller caller, const struct zg_stack_bounds *bounds,
                          int depth, bool adds) {
    struct zg_trail_frame *new_frames = trail->new_frames, frame = {.pc = caller.pc, .sp = caller.sp, .fp = caller.fp};
    uint32_t new_count = 0;
    if (trail->epoch != __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED)) {
        trail->epoch = zg_unwind_epoch;
        trail->count = 0;
    }
    for (bool outermost = false; !outermost;) {
        while (trail->count && trail->frames[trail->count - 1].sp < frame.sp) trail->count--; // they have returned
        if (trail->count && trail->frames[trail->count - 1].sp == frame.sp) {
            const struct zg_trail_frame *known = &trail->frames[trail->count - 1];
            if (known->pc == frame.pc && known->fp == frame.fp) {
                join(trail, &frame);
                uint32_t unchanged = unchanged_count(trail);
                if (ZG_LIKELY(unchanged == trail->count)) break;
                trail->count = unchanged; // further out it may still be joined
            } else {
                trail->count--;
            }
        }
        if (new_count == ZG_TRAIL_NEW) goto lost;
        struct zg_trail_frame *current = &new_frames[new_count++];
        *current = frame;
        struct zg_step step;
        switch (zg_unwind_step(&frame.pc, &frame.sp, &frame.fp, bounds, &step)) {
        case zg_step_done: break;
        case zg_step_outermost: outermost = true; break;
        case zg_step_lost: goto lost;
        }
        current->fp_used = step.used_fp;
        frame.place = step.pc_place;
        if (step.fp_place) frame.fp_place = step.fp_place;
        if (!outermost) continue;
        trail->count = 0;
        trail->end_place = step.end_place;
        if (step.end_place) trail->end_word = *(const uint64_t *)step.end_place;
    }
    if (trail->count + new_count > ZG_TRAIL_FRAMES) goto lost;
    while (new_count) {
        trail->frames[trail->count] = new_frames[--new_count];
        chain(trail, trail->count++, depth);
    }
    struct zg_trail_frame *innermost = &trail->frames[trail->count - 1];
    uint32_t stack = zg_depot_find(innermost->hash, outer_hash(trail, trail->count - 1));
    if (ZG_UNLIKELY(!stack)) return adds ? put(trail) : 0;
    innermost->node = stack & ~ZG_DEPOT_SETTLED;
    return stack;
lost:
    trail->count = 0;
    return 0;
}
