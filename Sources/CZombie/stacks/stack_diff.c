// Captures a stack by its difference from the thread's previous one. Hot path on a miss of the stack cache; no lock of
// its own.

#include "stacks/stack_diff.h"

#include "stacks/depot.h"

// Returns the anchor of frame `at`: the index of the outermost frame that is recorded of this frame's stack. A stack of
// more than `depth` + ZG_STACK_DIFF_STEP frames is cut at its anchor. ZG_STACK_DIFF_STEP successive frames have the
// same anchor, so that they share nodes of the depot.
ZG_INLINE uint32_t anchor_of(uint32_t at, uint32_t depth) {
    return ZG_LIKELY(at < depth + ZG_STACK_DIFF_STEP) ? 0 : (at - depth) / ZG_STACK_DIFF_STEP * ZG_STACK_DIFF_STEP;
}
// Returns the index of the outermost frame for which anchor_of returns `anchor`.
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

// Returns how many frames, counted from the outermost, have unchanged words. Called if some frame has changed words.
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

// Whether all of the first `count` frames have unchanged words. Ignores frames before `first`, the innermost frame's
// anchor: they are not part of that frame's stack.
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

// Call if the walk reached the innermost known frame by another path: the frame pointer of this frame is now saved at
// `place`. Corrects the address in this frame and in the outer frames that have the same frame pointer.
static ZG_NOINLINE void move_fp(struct zg_stack_diff_cache *stack_diff, uint32_t count, uint64_t place) {
    uint64_t old = stack_diff->frames[count - 1].fp_place;
    for (uint32_t i = stack_diff->use_counts[count - 1]; i-- && stack_diff->uses[i].place == old;)
        stack_diff->uses[i].place = place;
    for (uint32_t i = count; i-- && stack_diff->frames[i].fp_place == old;) stack_diff->frames[i].fp_place = place;
}

// Returns the hash of the frames from `anchor` to the one before `end`.
static ZG_NOINLINE uint64_t hash_between(const struct zg_stack_diff_cache *stack_diff, uint32_t anchor, uint32_t end) {
    uint64_t hash = 0;
    for (uint32_t i = anchor; i < end; i++) hash = zg_depot_hash(hash, stack_diff->returns[i].word);
    return hash;
}

// Returns the hash of a frame's stack, from the anchor inwards, without the frame itself.
ZG_INLINE uint64_t outer_hash(const struct zg_stack_diff_cache *stack_diff, uint32_t at) {
    uint32_t anchor = anchor_of(at, stack_diff->depth);
    if (ZG_LIKELY(at > first_with(anchor, stack_diff->depth))) return stack_diff->frames[at - 1].hash;
    return hash_between(stack_diff, anchor, at);
}

// Handles a new frame whose caller was found from fp, or whose stack is cut. Returns the hash of its stack without the
// frame itself.
static ZG_NOINLINE uint64_t note_rare(struct zg_stack_diff_cache *stack_diff, uint32_t at,
                                      const struct zg_rule_frame *new_frame, uint64_t outer) {
    if (new_frame->fp_place & 1)
        stack_diff->uses[stack_diff->use_count++] = (struct zg_stack_diff_word){new_frame->fp_place - 1, new_frame->fp};
    return at >= stack_diff->depth ? outer_hash(stack_diff, at) : outer;
}

// Appends the walk's new frames, outermost first, to `at` known ones. Returns the hash of all but the last frame.
ZG_INLINE uint64_t append(struct zg_stack_diff_cache *stack_diff, uint32_t at, const struct zg_rule_frame *new_frame) {
    const struct zg_rule_frame *end = &stack_diff->new_frames[ZG_STACK_DIFF_NEW];
    uint64_t hash = at ? stack_diff->frames[at - 1].hash : 0, outer;
    stack_diff->count = at + (uint32_t)(end - new_frame);
    if (ZG_UNLIKELY(new_frame == end)) return outer_hash(stack_diff, at - 1);
    stack_diff->use_count = uses_before(stack_diff, at);
    if (stack_diff->first_without_node > at) stack_diff->first_without_node = at;
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

// Adds the frames of the current stack that the depot does not have. Returns the stack's id, 0 if the depot is full.
static ZG_NOINLINE uint32_t put(struct zg_stack_diff_cache *stack_diff) {
    uint32_t last = stack_diff->count - 1, anchor = last_anchor(stack_diff),
             begin = first_with(anchor, stack_diff->depth);
    uint32_t first = stack_diff->first_without_node < last ? stack_diff->first_without_node : last, outer = 0;
    if (first < begin) first = begin;
    while (first > begin && !stack_diff->nodes[first - 1]) first--;
    struct zg_depot_frames frames = {.pc_step = sizeof *stack_diff->returns / 8,
                                     .hash_step = sizeof *stack_diff->frames / 8};
    if (first > begin) {
        outer = stack_diff->nodes[first - 1];
    } else if (first > anchor) { // nodes and hashes of these frames belong to an older anchor
        frames.pcs = &stack_diff->returns[anchor].word;
        frames.count = first - anchor;
        if (!(outer = zg_depot_add(0, 0, &frames))) return 0;
    }
    frames.pcs = &stack_diff->returns[first].word;
    frames.hashes = &stack_diff->frames[first].hash;
    frames.ids = &stack_diff->nodes[first];
    frames.count = last + 1 - first;
    stack_diff->first_without_node = last + 1;
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

// Lists the words that the cached frames depend on, innermost first, because another stack most likely differs in an
// inner word.
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

// Returns the stack's id: finds the innermost frame in the depot, or adds it if `adds`.
ZG_INLINE uint32_t stack_of(struct zg_stack_diff_cache *stack_diff, uint64_t outer, bool adds) {
    uint32_t last = stack_diff->count - 1, stack = zg_depot_find(stack_diff->frames[last].hash, outer);
    if (ZG_UNLIKELY(!stack)) return adds ? put(stack_diff) : 0;
    stack_diff->nodes[last] = stack & ~ZG_DEPOT_CONTEXT_DONE;
    stack_diff->first_without_node = last + 1;
    return stack;
}

enum { NOT_JOINED = -1 };

// The walk has reached the innermost of `count` known frames. It has read pc at `place` and fp at `fp_place`. Returns
// the stack, as zg_stack_diff_capture does. NOT_JOINED if a word has changed that this frame's stack depends on; the
// walk may still join one of the outer known frames. Not inlined, because the walk needs the processor's registers.
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
    zg_depot_expect(outer); // prefetches while words are compared
    if (ZG_UNLIKELY(anchor < stack_diff->first_compared && !all_unchanged(stack_diff, anchor, count))) {
        stack_diff->count = unchanged_count(stack_diff, anchor, count);
        stack_diff->first_compared = anchor;
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
    stack_diff->first_compared = UINT32_MAX;
    if (ZG_UNLIKELY(stack_diff->epoch != epoch || stack_diff->depth != (uint32_t)depth)) {
        stack_diff->epoch = epoch;
        stack_diff->depth = (uint32_t)depth;
        count = 0;
    }
    if (ZG_UNLIKELY(frame.sp & 7)) goto lost;
    for (uint64_t known_sp = last_sp(stack_diff, count);;) {
        if (known_sp <= frame.sp) {
            while (known_sp < frame.sp) known_sp = last_sp(stack_diff, --count); // these frames have returned
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
        uint64_t looked = zg_rules_lookup(rules, frame.pc - 1);
        if (ZG_LIKELY(zg_rule_is_simple(looked))) {
            if (zg_rule_uses_fp((zg_rule)looked, frame.sp)) first->fp_place++;
            if (ZG_UNLIKELY(!zg_rule_step((zg_rule)looked, &frame, high))) goto lost;
            if (ZG_LIKELY(frame.pc)) continue;
            end_place = frame.place;
            break;
        }
        // A copy, because a compiler keeps no variable in registers whose address is taken
        struct zg_rule_frame next = frame;
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
