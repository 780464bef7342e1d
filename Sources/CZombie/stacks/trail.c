// The trail of a thread. Hot path on a miss of the stack cache; no lock of its own.

#include "stacks/trail.h"

#include "stacks/depot.h"

// A stack deeper than `depth` + ZG_TRAIL_STEP frames is cut. Its chain begins at an anchor that the next ZG_TRAIL_STEP frames
// further in share, so that they share its nodes, too.
ZG_INLINE uint32_t anchor_of(uint32_t at, uint32_t depth) {
    return ZG_LIKELY(at < depth + ZG_TRAIL_STEP) ? 0 : (at - depth) / ZG_TRAIL_STEP * ZG_TRAIL_STEP;
}
// The outermost of the frames with this anchor.
ZG_INLINE uint32_t first_with(uint32_t anchor, uint32_t depth) { return anchor ? anchor + depth : 0; }

static uint32_t last_anchor(const struct zg_trail *trail) { return anchor_of(trail->count - 1, trail->depth); }

ZG_INLINE bool is_unchanged(const struct zg_trail_word *known) {
    return *(const uint64_t *)known->place == known->word;
}
ZG_INLINE bool is_same_return(const struct zg_trail_word *known) {
    return zg_arch_strip(*(const uint64_t *)known->place) == known->word;
}
ZG_INLINE bool is_same_end(const struct zg_trail *trail) {
    return !trail->end_place || zg_arch_strip(*(const uint64_t *)trail->end_place) == trail->end_word;
}

ZG_INLINE uint32_t uses_before(const struct zg_trail *trail, uint32_t at) { return at ? trail->use_counts[at - 1] : 0; }

// How many frames, from the outermost, were found by words that are as they were. Where a word is not.
static ZG_NOINLINE uint32_t unchanged_count(const struct zg_trail *trail, uint32_t first, uint32_t count) {
    uint32_t last = count - 1, use = uses_before(trail, first);
    if (!first && !is_same_end(trail)) return 0;
    for (uint32_t i = first; i <= last; i++) {
        if (i < last && !is_same_return(&trail->returns[i])) return i;
        for (; use < trail->use_counts[i]; use++)
            if (trail->uses[use].place && !is_unchanged(&trail->uses[use])) return i;
    }
    return count;
}

// All `count`. Frames before `first`, the innermost one's anchor, do not count for its stack and are not looked at.
ZG_INLINE bool all_unchanged(const struct zg_trail *trail, uint32_t first, uint32_t count) {
    enum { GROUP = 8 };
    const struct zg_trail_word *at = &trail->returns[first], *last = &trail->returns[count - 1];
    if (!first && !is_same_end(trail)) return false;
    for (; last - at >= GROUP; at += GROUP)
        for (int i = 0; i < GROUP; i++)
            if (ZG_UNLIKELY(!is_same_return(&at[i]))) return false;
    for (; at < last; at++)
        if (ZG_UNLIKELY(!is_same_return(at))) return false;
    const struct zg_trail_word *use = &trail->uses[uses_before(trail, first)];
    const struct zg_trail_word *end = &trail->uses[trail->use_counts[count - 1]];
    for (; use < end; use++)
        if (ZG_UNLIKELY(use->place && !is_unchanged(use))) return false;
    return true;
}

// The known innermost frame was reached another way: frame pointers that passed through it come from elsewhere now.
static ZG_NOINLINE void move_fp(struct zg_trail *trail, uint32_t count, uint64_t place) {
    uint64_t old = trail->frames[count - 1].fp_place;
    for (uint32_t i = trail->use_counts[count - 1]; i-- && trail->uses[i].place == old;) trail->uses[i].place = place;
    for (uint32_t i = count; i-- && trail->frames[i].fp_place == old;) trail->frames[i].fp_place = place;
}

// The hash of a chain: the frames from its anchor up to, and without, this one.
static ZG_NOINLINE uint64_t hash_between(const struct zg_trail *trail, uint32_t anchor, uint32_t end) {
    uint64_t hash = 0;
    for (uint32_t i = anchor; i < end; i++) hash = zg_depot_hash(hash, trail->returns[i].word);
    return hash;
}

// The hash of a frame's chain without the frame.
ZG_INLINE uint64_t outer_hash(const struct zg_trail *trail, uint32_t at) {
    uint32_t anchor = anchor_of(at, trail->depth);
    if (ZG_LIKELY(at > first_with(anchor, trail->depth))) return trail->frames[at - 1].hash;
    return hash_between(trail, anchor, at);
}

// What makes a new frame more than an ordinary one: its caller was found from fp, or its stack is cut. Its hash without it.
static ZG_NOINLINE uint64_t note_rare(struct zg_trail *trail, uint32_t at, const struct zg_rule_frame *new_frame,
                                      uint64_t outer) {
    if (new_frame->fp_place & 1)
        trail->uses[trail->use_count++] = (struct zg_trail_word){new_frame->fp_place - 1, new_frame->fp};
    return at >= trail->depth ? outer_hash(trail, at) : outer;
}

// The walk's new frames, from the outermost, become the innermost ones behind `at` others. Returns the hash of all but the last.
ZG_INLINE uint64_t append(struct zg_trail *trail, uint32_t at, const struct zg_rule_frame *new_frame) {
    const struct zg_rule_frame *end = &trail->new_frames[ZG_TRAIL_NEW];
    uint64_t hash = at ? trail->frames[at - 1].hash : 0, outer;
    trail->count = at + (uint32_t)(end - new_frame);
    if (ZG_UNLIKELY(new_frame == end)) return outer_hash(trail, at - 1);
    trail->use_count = uses_before(trail, at);
    if (trail->with_nodes > at) trail->with_nodes = at;
    do {
        outer = hash;
        if (ZG_UNLIKELY(new_frame->fp_place & 1 || at >= trail->depth)) outer = note_rare(trail, at, new_frame, hash);
        hash = zg_depot_hash(outer, new_frame->pc);
        trail->returns[at] = (struct zg_trail_word){new_frame->place, new_frame->pc};
        trail->frames[at] =
            (struct zg_trail_frame){new_frame->sp, new_frame->fp, new_frame->fp_place & ~UINT64_C(1), hash};
        trail->use_counts[at] = (uint16_t)trail->use_count;
        trail->nodes[at] = 0;
        at++;
    } while (++new_frame < end);
    return outer;
}

// Adds the frames that the depot does not have under this chain.
static ZG_NOINLINE uint32_t put(struct zg_trail *trail) {
    uint32_t last = trail->count - 1, anchor = last_anchor(trail), begin = first_with(anchor, trail->depth);
    uint32_t first = trail->with_nodes < last ? trail->with_nodes : last, outer = 0;
    if (first < begin) first = begin;
    while (first > begin && !trail->nodes[first - 1]) first--;
    struct zg_depot_frames frames = {.pc_step = sizeof *trail->returns / 8, .hash_step = sizeof *trail->frames / 8};
    if (first > begin) {
        outer = trail->nodes[first - 1];
    } else if (first > anchor) { // frames that have nodes and hashes of an older chain
        frames.pcs = &trail->returns[anchor].word;
        frames.count = first - anchor;
        if (!(outer = zg_depot_add(0, 0, &frames))) return 0;
    }
    frames.pcs = &trail->returns[first].word;
    frames.hashes = &trail->frames[first].hash;
    frames.ids = &trail->nodes[first];
    frames.count = last + 1 - first;
    trail->with_nodes = last + 1;
    return zg_depot_add(outer, outer_hash(trail, first), &frames);
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
    uint32_t last = trail->count - 1, first = last_anchor(trail);
    uint64_t noted = 1;
    uint32_t words = last - first + trail->use_counts[last] - uses_before(trail, first);
    walk->repeatable = words <= ZG_WALK_WORDS;
    walk->uses_fp = false;
    walk->word_count = 0;
    for (uint32_t i = trail->count; i-- > first && walk->repeatable;) {
        const struct zg_trail_frame *frame = &trail->frames[i];
        if (i < last) depend(walk, sp, trail->returns[i].place, trail->returns[i].word);
        if (trail->use_counts[i] == uses_before(trail, i) || frame->fp_place == noted) continue;
        noted = frame->fp_place;
        if (noted) depend(walk, sp, noted, frame->fp);
        else walk->uses_fp = true;
    }
    if (!first && trail->end_place && walk->repeatable) depend(walk, sp, trail->end_place, trail->end_word);
}

// The innermost frame, and with it the stack, is new or found again.
ZG_INLINE uint32_t stack_of(struct zg_trail *trail, uint64_t outer, bool adds) {
    uint32_t last = trail->count - 1, stack = zg_depot_find(trail->frames[last].hash, outer);
    if (ZG_UNLIKELY(!stack)) return adds ? put(trail) : 0;
    trail->nodes[last] = stack & ~ZG_DEPOT_SETTLED;
    trail->with_nodes = last + 1;
    return stack;
}

enum { NOT_JOINED = -1 };

// Walked to the innermost of `count` known frames, by the words at these places. The stack, as zg_trail_capture gives it; NOT_JOINED
// where what that frame's own stack depended on has changed: the frames that are left may still be joined.
// Not a part of the walk, which needs the registers.
static ZG_NOINLINE int64_t join(struct zg_trail *trail, uint32_t count, const struct zg_rule_frame *first,
                                uint64_t place, uint64_t fp_place, bool adds) {
    uint32_t depth = trail->depth, anchor = anchor_of(count - 1, depth);
    uint64_t new_count = (uint64_t)(&trail->new_frames[ZG_TRAIL_NEW] - first);
    if (ZG_UNLIKELY(count + new_count > ZG_TRAIL_FRAMES)) {
        trail->count = 0;
        return 0;
    }
    trail->returns[count - 1].place = place;
    if (trail->frames[count - 1].fp_place != fp_place) move_fp(trail, count, fp_place);
    uint64_t outer = append(trail, count, first);
    zg_depot_expect(outer); // while all is compared
    if (ZG_UNLIKELY(anchor < trail->compared && !all_unchanged(trail, anchor, count))) {
        trail->count = unchanged_count(trail, anchor, count);
        trail->compared = anchor;
        return NOT_JOINED;
    }
    return stack_of(trail, outer, adds);
}

ZG_INLINE uint64_t last_sp(const struct zg_trail *trail, uint32_t count) {
    return ZG_LIKELY(count) ? trail->frames[count - 1].sp : UINT64_MAX;
}

uint32_t zg_trail_capture(struct zg_trail *trail, struct zg_caller caller, const struct zg_stack_bounds *bounds,
                          int depth, bool adds) {
    const struct zg_unwind_rules *rules = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    struct zg_rule_frame *first = &trail->new_frames[ZG_TRAIL_NEW];
    struct zg_rule_frame frame = {.pc = caller.pc, .sp = caller.sp, .fp = caller.fp};
    uint64_t high = bounds->high, end_place;
    uint64_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED), count = trail->count;
    trail->compared = UINT32_MAX;
    if (ZG_UNLIKELY(trail->epoch != epoch || trail->depth != (uint32_t)depth)) {
        trail->epoch = epoch;
        trail->depth = (uint32_t)depth;
        count = 0;
    }
    if (ZG_UNLIKELY(frame.sp & 7)) goto lost;
    for (uint64_t known_sp = last_sp(trail, count);;) {
        if (known_sp <= frame.sp) {
            while (known_sp < frame.sp) known_sp = last_sp(trail, --count); // they have returned
            if (known_sp == frame.sp) {
                if (trail->returns[count - 1].word == frame.pc && trail->frames[count - 1].fp == frame.fp) {
                    int64_t stack = join(trail, count, first, frame.place, frame.fp_place, adds);
                    if (ZG_LIKELY(stack != NOT_JOINED)) return (uint32_t)stack;
                    count = trail->count + 1;
                }
                known_sp = last_sp(trail, --count);
            }
        }
        if (ZG_UNLIKELY(first == trail->new_frames)) goto lost;
        *--first = frame;
        uint64_t looked = zg_rules_look(rules, frame.pc - 1);
        if (ZG_LIKELY(zg_rule_is_simple(looked))) {
            if (zg_rule_uses_fp((zg_rule)looked, frame.sp)) first->fp_place++;
            if (ZG_UNLIKELY(!zg_rule_step((zg_rule)looked, &frame, high))) goto lost;
            if (ZG_LIKELY(frame.pc)) continue;
            end_place = frame.place;
            break;
        }
        struct zg_rule_frame next = frame; // what has an address is not in registers
        bool used_fp;
        enum zg_step_result result = zg_unwind_step(&next, high, &used_fp, &end_place);
        first->fp_place += used_fp;
        if (result == zg_step_lost) goto lost;
        if (result == zg_step_outermost) break;
        frame = next;
    }
    trail->end_place = end_place;
    if (end_place) trail->end_word = *(const uint64_t *)end_place;
    return stack_of(trail, append(trail, 0, first), adds);
lost:
    trail->count = 0;
    return 0;
}
