// The trail of a thread. Hot path on a miss of the stack cache; no lock of its own.

#include "stacks/stack_diff.h"

#include "stacks/depot.h"

// A stack deeper than `depth` + ZG_STACK_DIFF_STEP frames is cut. Its chain begins at an anchor that the next ZG_STACK_DIFF_STEP frames
// further in share, so that they share its nodes, too.
ZG_INLINE uint32_t anchor_of(uint32_t at, uint32_t depth) {
    return ZG_LIKELY(at < depth + ZG_STACK_DIFF_STEP) ? 0 : (at - depth) / ZG_STACK_DIFF_STEP * ZG_STACK_DIFF_STEP;
}
// The outermost of the frames with this anchor.
ZG_INLINE uint32_t first_with(uint32_t anchor, uint32_t depth) { return anchor ? anchor + depth : 0; }

static uint32_t last_anchor(const struct zg_stack_diff_cache *stack_diff) {
    return anchor_of(stack_diff->count - 1, stack_diff->depth);
}

ZG_INLINE bool is_unchanged(const struct zg_stack_diff_word *known) {
    return *(const uint64_t *)known->place == known->word;
}
ZG_INLINE bool is_same_return(const struct zg_stack_diff_word *known) {
    return zg_arch_strip(*(const uint64_t *)known->place) == known->word;
}
ZG_INLINE bool is_same_end(const struct zg_stack_diff_cache *stack_diff) {
    return !stack_diff->end_place || zg_arch_strip(*(const uint64_t *)stack_diff->end_place) == stack_diff->end_word;
}

ZG_INLINE uint32_t uses_before(const struct zg_stack_diff_cache *stack_diff, uint32_t at) {
    return at ? stack_diff->use_counts[at - 1] : 0;
}

// How many frames, from the outermost, were found by words that are as they were. Where a word is not.
static ZG_NOINLINE uint32_t unchanged_count(const struct zg_stack_diff_cache *stack_diff, uint32_t first,
                                            uint32_t count) {
    uint32_t last = count - 1, use = uses_before(stack_diff, first);
    if (!first && !is_same_end(stack_diff)) return 0;
    for (uint32_t i = first; i <= last; i++) {
        if (i < last && !is_same_return(&stack_diff->returns[i])) return i;
        for (; use < stack_diff->use_counts[i]; use++)
            if (stack_diff->uses[use].place && !is_unchanged(&stack_diff->uses[use])) return i;
    }
    return count;
}

// All `count`. Frames before `first`, the innermost one's anchor, do not count for its stack and are not looked at.
ZG_INLINE bool all_unchanged(const struct zg_stack_diff_cache *stack_diff, uint32_t first, uint32_t count) {
    enum { GROUP = 8 };
    const struct zg_stack_diff_word *at = &stack_diff->returns[first], *last = &stack_diff->returns[count - 1];
    if (!first && !is_same_end(stack_diff)) return false;
    for (; last - at >= GROUP; at += GROUP)
        for (int i = 0; i < GROUP; i++)
            if (ZG_UNLIKELY(!is_same_return(&at[i]))) return false;
    for (; at < last; at++)
        if (ZG_UNLIKELY(!is_same_return(at))) return false;
    const struct zg_stack_diff_word *use = &stack_diff->uses[uses_before(stack_diff, first)];
    const struct zg_stack_diff_word *end = &stack_diff->uses[stack_diff->use_counts[count - 1]];
    for (; use < end; use++)
        if (ZG_UNLIKELY(use->place && !is_unchanged(use))) return false;
    return true;
}

// The known innermost frame was reached another way: frame pointers that passed through it come from elsewhere now.
static ZG_NOINLINE void move_fp(struct zg_stack_diff_cache *stack_diff, uint32_t count, uint64_t place) {
    uint64_t old = stack_diff->frames[count - 1].fp_place;
    for (uint32_t i = stack_diff->use_counts[count - 1]; i-- && stack_diff->uses[i].place == old;)
        stack_diff->uses[i].place = place;
    for (uint32_t i = count; i-- && stack_diff->frames[i].fp_place == old;) stack_diff->frames[i].fp_place = place;
}

// The hash of a chain: the frames from its anchor up to, and without, this one.
static ZG_NOINLINE uint64_t hash_between(const struct zg_stack_diff_cache *stack_diff, uint32_t anchor, uint32_t end) {
    uint64_t hash = 0;
    for (uint32_t i = anchor; i < end; i++) hash = zg_depot_hash(hash, stack_diff->returns[i].word);
    return hash;
}

// The hash of a frame's chain without the frame.
ZG_INLINE uint64_t outer_hash(const struct zg_stack_diff_cache *stack_diff, uint32_t at) {
    uint32_t anchor = anchor_of(at, stack_diff->depth);
    if (ZG_LIKELY(at > first_with(anchor, stack_diff->depth))) return stack_diff->frames[at - 1].hash;
    return hash_between(stack_diff, anchor, at);
}

// What makes a new frame more than an ordinary one: its caller was found from fp, or its stack is cut. Its hash without it.
static ZG_NOINLINE uint64_t note_rare(struct zg_stack_diff_cache *stack_diff, uint32_t at,
                                      const struct zg_rule_frame *new_frame, uint64_t outer) {
    if (new_frame->fp_place & 1)
        stack_diff->uses[stack_diff->use_count++] = (struct zg_stack_diff_word){new_frame->fp_place - 1, new_frame->fp};
    return at >= stack_diff->depth ? outer_hash(stack_diff, at) : outer;
}

// The walk's new frames, from the outermost, become the innermost ones behind `at` others. Returns the hash of all but the last.
ZG_INLINE uint64_t append(struct zg_stack_diff_cache *stack_diff, uint32_t at, const struct zg_rule_frame *new_frame) {
    const struct zg_rule_frame *end = &stack_diff->new_frames[ZG_STACK_DIFF_NEW];
    uint64_t hash = at ? stack_diff->frames[at - 1].hash : 0, outer;
    stack_diff->count = at + (uint32_t)(end - new_frame);
    if (ZG_UNLIKELY(new_frame == end)) return outer_hash(stack_diff, at - 1);
    stack_diff->use_count = uses_before(stack_diff, at);
    if (stack_diff->with_nodes > at) stack_diff->with_nodes = at;
    do {
        outer = hash;
        if (ZG_UNLIKELY(new_frame->fp_place & 1 || at >= stack_diff->depth))
            outer = note_rare(stack_diff, at, new_frame, hash);
        hash = zg_depot_hash(outer, new_frame->pc);
        stack_diff->returns[at] = (struct zg_stack_diff_word){new_frame->place, new_frame->pc};
        stack_diff->frames[at] =
            (struct zg_stack_diff_frame){new_frame->sp, new_frame->fp, new_frame->fp_place & ~UINT64_C(1), hash};
        stack_diff->use_counts[at] = (uint16_t)stack_diff->use_count;
        stack_diff->nodes[at] = 0;
        at++;
    } while (++new_frame < end);
    return outer;
}

// Adds the frames that the depot does not have under this chain.
static ZG_NOINLINE uint32_t put(struct zg_stack_diff_cache *stack_diff) {
    uint32_t last = stack_diff->count - 1, anchor = last_anchor(stack_diff),
             begin = first_with(anchor, stack_diff->depth);
    uint32_t first = stack_diff->with_nodes < last ? stack_diff->with_nodes : last, outer = 0;
    if (first < begin) first = begin;
    while (first > begin && !stack_diff->nodes[first - 1]) first--;
    struct zg_depot_frames frames = {.pc_step = sizeof *stack_diff->returns / 8,
                                     .hash_step = sizeof *stack_diff->frames / 8};
    if (first > begin) {
        outer = stack_diff->nodes[first - 1];
    } else if (first > anchor) { // frames that have nodes and hashes of an older chain
        frames.pcs = &stack_diff->returns[anchor].word;
        frames.count = first - anchor;
        if (!(outer = zg_depot_add(0, 0, &frames))) return 0;
    }
    frames.pcs = &stack_diff->returns[first].word;
    frames.hashes = &stack_diff->frames[first].hash;
    frames.ids = &stack_diff->nodes[first];
    frames.count = last + 1 - first;
    stack_diff->with_nodes = last + 1;
    return zg_depot_add(outer, outer_hash(stack_diff, first), &frames);
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
void zg_stack_diff_describe(const struct zg_stack_diff_cache *stack_diff, uint64_t sp, struct zg_walk *walk) {
    uint32_t last = stack_diff->count - 1, first = last_anchor(stack_diff);
    uint64_t noted = 1;
    uint32_t words = last - first + stack_diff->use_counts[last] - uses_before(stack_diff, first);
    walk->repeatable = words <= ZG_WALK_WORDS;
    walk->uses_fp = false;
    walk->word_count = 0;
    for (uint32_t i = stack_diff->count; i-- > first && walk->repeatable;) {
        const struct zg_stack_diff_frame *frame = &stack_diff->frames[i];
        if (i < last) depend(walk, sp, stack_diff->returns[i].place, stack_diff->returns[i].word);
        if (stack_diff->use_counts[i] == uses_before(stack_diff, i) || frame->fp_place == noted) continue;
        noted = frame->fp_place;
        if (noted) depend(walk, sp, noted, frame->fp);
        else walk->uses_fp = true;
    }
    if (!first && stack_diff->end_place && walk->repeatable)
        depend(walk, sp, stack_diff->end_place, stack_diff->end_word);
}

// The innermost frame, and with it the stack, is new or found again.
ZG_INLINE uint32_t stack_of(struct zg_stack_diff_cache *stack_diff, uint64_t outer, bool adds) {
    uint32_t last = stack_diff->count - 1, stack = zg_depot_find(stack_diff->frames[last].hash, outer);
    if (ZG_UNLIKELY(!stack)) return adds ? put(stack_diff) : 0;
    stack_diff->nodes[last] = stack & ~ZG_DEPOT_CONTEXT_DONE;
    stack_diff->with_nodes = last + 1;
    return stack;
}

enum { NOT_JOINED = -1 };

// Walked to the innermost of `count` known frames, by the words at these places. The stack, as zg_stack_diff_capture gives it; NOT_JOINED
// where what that frame's own stack depended on has changed: the frames that are left may still be joined.
// Not a part of the walk, which needs the registers.
static ZG_NOINLINE int64_t join(struct zg_stack_diff_cache *stack_diff, uint32_t count,
                                const struct zg_rule_frame *first, uint64_t place, uint64_t fp_place, bool adds) {
    uint32_t depth = stack_diff->depth, anchor = anchor_of(count - 1, depth);
    uint64_t new_count = (uint64_t)(&stack_diff->new_frames[ZG_STACK_DIFF_NEW] - first);
    if (ZG_UNLIKELY(count + new_count > ZG_STACK_DIFF_FRAMES)) {
        stack_diff->count = 0;
        return 0;
    }
    stack_diff->returns[count - 1].place = place;
    if (stack_diff->frames[count - 1].fp_place != fp_place) move_fp(stack_diff, count, fp_place);
    uint64_t outer = append(stack_diff, count, first);
    zg_depot_expect(outer); // while all is compared
    if (ZG_UNLIKELY(anchor < stack_diff->compared && !all_unchanged(stack_diff, anchor, count))) {
        stack_diff->count = unchanged_count(stack_diff, anchor, count);
        stack_diff->compared = anchor;
        return NOT_JOINED;
    }
    return stack_of(stack_diff, outer, adds);
}

ZG_INLINE uint64_t last_sp(const struct zg_stack_diff_cache *stack_diff, uint32_t count) {
    return ZG_LIKELY(count) ? stack_diff->frames[count - 1].sp : UINT64_MAX;
}

uint32_t zg_stack_diff_capture(struct zg_stack_diff_cache *stack_diff, struct zg_caller caller,
                               const struct zg_stack_bounds *bounds, int depth, bool adds) {
    const struct zg_unwind_rules *rules = __atomic_load_n(&zg_unwind_rules, __ATOMIC_ACQUIRE);
    struct zg_rule_frame *first = &stack_diff->new_frames[ZG_STACK_DIFF_NEW];
    struct zg_rule_frame frame = {.pc = caller.pc, .sp = caller.sp, .fp = caller.fp};
    uint64_t high = bounds->high, end_place;
    uint64_t epoch = __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED), count = stack_diff->count;
    stack_diff->compared = UINT32_MAX;
    if (ZG_UNLIKELY(stack_diff->epoch != epoch || stack_diff->depth != (uint32_t)depth)) {
        stack_diff->epoch = epoch;
        stack_diff->depth = (uint32_t)depth;
        count = 0;
    }
    if (ZG_UNLIKELY(frame.sp & 7)) goto lost;
    for (uint64_t known_sp = last_sp(stack_diff, count);;) {
        if (known_sp <= frame.sp) {
            while (known_sp < frame.sp) known_sp = last_sp(stack_diff, --count); // they have returned
            if (known_sp == frame.sp) {
                if (stack_diff->returns[count - 1].word == frame.pc && stack_diff->frames[count - 1].fp == frame.fp) {
                    int64_t stack = join(stack_diff, count, first, frame.place, frame.fp_place, adds);
                    if (ZG_LIKELY(stack != NOT_JOINED)) return (uint32_t)stack;
                    count = stack_diff->count + 1;
                }
                known_sp = last_sp(stack_diff, --count);
            }
        }
        if (ZG_UNLIKELY(first == stack_diff->new_frames)) goto lost;
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
    stack_diff->end_place = end_place;
    if (end_place) stack_diff->end_word = *(const uint64_t *)end_place;
    return stack_of(stack_diff, append(stack_diff, 0, first), adds);
lost:
    stack_diff->count = 0;
    return 0;
}
