// Captures stack traces that miss the first lookup in the thread's stack cache. Slow path; the depot's lock.

#include "threads/capture.h"

#include "images/module.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "stacks/focus.h"
#include "stacks/stack_time.h"

enum {
    EXTENSION_PERIOD = 256,
    SHORTENED_MOST = 10,
    ASKED = 7,
    TIMED = 16,
    VARIANTS = 16,
    FAMILY_FRAMES = 3,
    LIBRARY_FRAMES = 2
};

// True if captures ask for isolated blocks even for contexts that have had all their isolated blocks.
static bool asks_again;

// Removes ZG_DEPOT_CONTEXT_DONE, the flag of a context that has had all its isolated blocks, from a stack id. Adds
// ZG_STACK_ISOLATE if the flag was missing or captures ask again, unless all blocks are isolated anyway (ZG_FENCE_ALL).
static uint32_t mark(uint32_t found) {
    bool settled = found & ZG_DEPOT_CONTEXT_DONE && !__atomic_load_n(&asks_again, __ATOMIC_RELAXED);
    found &= ~ZG_DEPOT_CONTEXT_DONE;
    if (!found || settled || zg_config.isolated_per_context == ZG_FENCE_ALL) return found;
    return zg_config.isolated_per_context || zg_focus_is_on ? found | ZG_STACK_ISOLATE : found;
}

// While new stacks are shortened, a stack that was recorded whole before should still be found whole. While nearly all
// whole stacks are found, every capture looks for one; otherwise one capture in SELDOM does.
enum { KNOWN_GAIN = 1, KNOWN_LOSS = 4, KNOWN_MOST = 64, SELDOM = 256 };

static ZG_NOINLINE uint32_t find_whole(struct zg_thread *thread, struct zg_caller caller, int depth) {
    if (thread->whole_stack_score <= 0 && thread->slow_captures % SELDOM) return 0;
    uint32_t found = zg_stack_diff_capture(&thread->stack_diff, caller, &thread->stack, depth, false);
    int likely = thread->whole_stack_score + (found ? KNOWN_GAIN : -KNOWN_LOSS);
    thread->whole_stack_score = likely < 0 ? 0 : likely < KNOWN_MOST ? likely : KNOWN_MOST;
    return found;
}

// Returns true if a library made the call at `pc`, and caches the answer. LIBRARY_FRAMES more frames are then recorded:
// libswiftCore and libstdc++ lie between malloc and the program.
static ZG_NOINLINE bool look_for_library(uint64_t *known, uint64_t pc) {
    bool is_library = zg_module_is_library(pc - 1);
    *known = pc << 1 | is_library;
    return is_library;
}

static bool is_library(struct zg_thread *thread, uint64_t pc) {
    uint64_t *known = &thread->caller_is_library[(pc ^ pc >> 6) % ZG_KNOWN_CALLERS];
    return ZG_LIKELY(*known >> 1 == pc) ? *known & 1 : look_for_library(known, pc);
}

enum answer { by_stack_diff, by_innermost, by_walk };

// How many frames of a new stack are recorded
struct extent {
    int most, frames; // `most`: limit for a whole stack; `frames`: limit for this stack
    bool for_time;    // shortened because of stack_overhead
};

static struct extent extent_of(struct zg_thread *thread, uint64_t pc) {
    int most = (int)zg_config.stack_depth;
    struct extent extent = {most, most, false};
    if (ZG_UNLIKELY(thread->stack_step)) {
        int frames = zg_stack_time_frames(thread->stack_step) + (is_library(thread, pc) ? LIBRARY_FRAMES : 0);
        if (frames < most) return (struct extent){most, frames, true};
    } else if (ZG_UNLIKELY(__atomic_load_n(&zg_depot_is_scarce, __ATOMIC_RELAXED))) {
        extent.frames = zg_depot_depth(zg_stats_get(zg_counter_stacks_captured) + thread->allocations, most);
    }
    return extent;
}

// Records only the innermost frames. Their hash is not the depot's: it is computed from the innermost frame outwards,
// and the table that it indexes is small and contiguous. Hashes of two stacks collide as rarely as the depot's tags. If
// stack_overhead is the reason (`for_time`), the first VARIANTS stacks with the same innermost FAMILY_FRAMES frames are
// still recorded whole.
static ZG_NOINLINE uint32_t find_shortened(struct zg_thread *thread, struct zg_caller caller, struct extent extent,
                                           enum answer *how) {
    uint64_t frames[SHORTENED_MOST], hash = 0, family = 0;
    int depth = extent.frames;
    int count = depth <= SHORTENED_MOST ? zg_unwind_innermost(caller, &thread->stack, depth, frames) : 0;
    for (int i = 0; i < count; i++) {
        if (i == FAMILY_FRAMES) family = hash;
        uint64_t mixed = (frames[i] + (uint64_t)i) * UINT64_C(0x9fb21c651e98df25);
        hash += (mixed ^ mixed >> 32) * (UINT64_C(0xd6e8feb86659fd93) + 2 * (uint64_t)i);
    }
    if (!count) return 0;
    uint8_t *variants = &thread->variants[family >> 28 & (ZG_SIBLING_STACKS - 1)];
    if (ZG_UNLIKELY(extent.for_time && family && *variants < VARIANTS)) {
        uint32_t whole = zg_stack_diff_capture(&thread->stack_diff, caller, &thread->stack, extent.most, true);
        ++*variants;
        if (whole) {
            *how = by_stack_diff;
            return whole;
        }
    }
    *how = by_innermost;
    thread->shortened += count == depth;
    uint32_t place = hash >> 40 & (ZG_SHORTENED_STACKS - 1);
    // Only one capture in ASKED of a known context asks for an isolated block: asking at each capture would double the
    // cost.
    if (thread->shortened_stacks[place].hash == hash)
        return thread->shortened_stacks[place].id | (thread->slow_captures % ASKED ? ZG_DEPOT_CONTEXT_DONE : 0);
    uint32_t found = (count == depth ? zg_depot_put_shortened : zg_depot_put)(frames, count);
    thread->shortened_stacks[place].hash = found ? hash : 0;
    thread->shortened_stacks[place].id = found;
    return found;
}

// Captures through the stack diff cache, or by a full walk if the cache cannot be used (a stack other than the thread's
// own, signal frames).
static ZG_NOINLINE uint32_t record(struct zg_thread *thread, struct zg_caller caller, bool own_stack, bool allocates) {
    enum answer how = by_walk;
    struct zg_walk *walk = &thread->walk;
    struct extent extent = extent_of(thread, caller.pc);
    uint32_t found = 0, stack;
    int depth = extent.frames;
    if (own_stack && depth == extent.most) {
        if ((found = zg_stack_diff_capture(&thread->stack_diff, caller, &thread->stack, depth, true)))
            how = by_stack_diff;
    } else if (own_stack) {
        if (!extent.for_time && (found = find_whole(thread, caller, extent.most))) how = by_stack_diff;
        else if (!(found = find_shortened(thread, caller, extent, &how))) how = by_walk;
    }
    zg_observe_answer(how == by_stack_diff ? zg_answer_stack_diff : zg_answer_walk);
    if (how == by_walk) {
        zg_unwind_fast(caller, &thread->stack, depth, walk);
        bool shortens = depth < extent.most && walk->count >= depth;
        found = (shortens ? zg_depot_put_shortened : zg_depot_put)(walk->frames, walk->count);
        if (!found) { // the depot is full
            found = zg_depot_put_shortened(walk->frames, 1);
            walk->repeatable = false;
            shortens = true;
        }
        thread->shortened += shortens;
    }
    stack = allocates ? mark(found) : found & ~ZG_DEPOT_CONTEXT_DONE;
    if (how != by_walk && !zg_stack_cache_wants(&thread->stack_cache, caller, stack)) return stack;
    if (how == by_stack_diff) zg_stack_diff_describe(&thread->stack_diff, caller.sp, walk);
    if (how == by_innermost) zg_unwind_fast(caller, &thread->stack, depth, walk);
    zg_stack_cache_add(&thread->stack_cache, caller, walk, stack);
    return stack;
}

// Times one new stack in TIMED on average, at random distances, so that the timed stacks are not in step with a pattern
// that the program repeats.
static ZG_NOINLINE uint32_t record_timed(struct zg_thread *thread, struct zg_caller caller, bool own_stack,
                                         bool allocates) {
    uint64_t since = zg_arch_ticks();
    uint32_t stack = record(thread, caller, own_stack, allocates);
    if (zg_stack_time_is_limited()) zg_stack_time_spent(since, thread->timed_for + 1);
    thread->untimed = thread->timed_for = TIMED / 2 + since % TIMED;
    uint64_t step = zg_load(&zg_stack_time_step);
    if (ZG_LIKELY(step == thread->stack_step)) return stack;
    if (!thread->stack_step) zg_stats_degrade(zg_degradation_stacks_shortened);
    // Forget cached stacks, so that all captures of a stack return one id. Then only stacks that repeat get entries
    // again.
    zg_stack_cache_forget(&thread->stack_cache);
    thread->stack_step = step;
    return stack;
}

static uint32_t capture_new(struct zg_thread *thread, struct zg_caller caller, bool own_stack, bool allocates) {
    if (ZG_UNLIKELY(!thread->untimed)) return record_timed(thread, caller, own_stack, allocates);
    thread->untimed--;
    return record(thread, caller, own_stack, allocates);
}

ZG_KEEPS_REGISTERS uint32_t zg_capture_cached_ways(struct zg_thread *thread, const uint64_t *frame) {
    struct zg_caller caller = zg_capture_caller(frame);
    return zg_stack_cache_find(&thread->stack_cache, caller, zg_stack_cache_key(&thread->stack_cache, caller));
}

uint32_t zg_capture_slow(struct zg_thread *thread, bool allocates) {
    struct zg_caller caller = zg_capture_caller(thread->frame);
    if (ZG_UNLIKELY(!zg_config.stack_depth)) return 0;
    // Coroutine stacks may lie below the thread's own. Probe such a stack pointer once, then in one capture of
    // EXTENSION_PERIOD: the memory may have become part of the thread's stack.
    if (ZG_UNLIKELY(caller.sp < thread->stack.low) &&
        (!zg_unwind_has_read(caller.sp) || thread->slow_captures % EXTENSION_PERIOD == 0))
        zg_thread_extend_stack(&thread->stack, caller.sp);
    thread->slow_captures++;
    // The cache describes the thread's own stack only: cached words must not be read on another stack (a coroutine's).
    bool own_stack = caller.sp >= thread->stack.low && caller.sp < thread->stack.high;
    struct zg_stack_cache *cache = &thread->stack_cache;
    uint64_t key = zg_stack_cache_key(cache, caller);
    uint32_t stack = 0;
    if (own_stack && !zg_stack_cache_was_looked_for(cache, key)) stack = zg_stack_cache_find(cache, caller, key);
    return stack ? stack : capture_new(thread, caller, own_stack, allocates);
}

void zg_capture_clear_isolation(struct zg_thread *thread, uint32_t stack) {
    zg_stack_cache_clear(&thread->stack_cache, zg_capture_caller(thread->frame), stack, ZG_STACK_ISOLATE);
}

void zg_capture_renew_isolation(void) {
    __atomic_store_n(&asks_again, true, __ATOMIC_RELAXED);
    // Invalidate the caches: the ids in their entries lack ZG_STACK_ISOLATE.
    __atomic_fetch_add(&zg_unwind_epoch, ZG_UNWIND_EPOCH, __ATOMIC_RELAXED);
}
