// Stacks that the thread's cache does not know at its first look. Slow path; the depot's lock.

#include "threads/capture.h"

#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"

enum { EXTENSION_PERIOD = 256 };

// The context that the depot found or added, with the bit where fewer than fence_per_context of its blocks have been fenced.
static uint32_t mark(uint32_t found) {
    if (!found || found & ZG_DEPOT_SETTLED) return found & ~ZG_DEPOT_SETTLED;
    return zg_config.fence_per_context && zg_config.fence_per_context != ZG_FENCE_ALL ? found | ZG_STACK_FENCE : found;
}

// While new stacks are shortened, those that were recorded whole before are still found whole: as long as nearly all are, and
// otherwise one capture in SELDOM tries.
enum { KNOWN_GAIN = 1, KNOWN_LOSS = 4, KNOWN_MOST = 64, SELDOM = 256 };

static ZG_NOINLINE uint32_t find_whole(struct zg_thread *thread, struct zg_caller caller, int depth) {
    if (thread->whole_stacks <= 0 && thread->captures % SELDOM) return 0;
    uint32_t found = zg_trail_capture(&thread->trail, caller, &thread->stack, depth, false);
    int likely = thread->whole_stacks + (found ? KNOWN_GAIN : -KNOWN_LOSS);
    thread->whole_stacks = likely < 0 ? 0 : likely < KNOWN_MOST ? likely : KNOWN_MOST;
    return found;
}

// Along the trail, or where that cannot follow (another stack than the thread's own, signal frames) by a walk.
static ZG_NOINLINE uint32_t capture_new(struct zg_thread *thread, struct zg_caller caller, bool own_stack,
                                        bool allocates) {
    struct zg_walk *walk = &thread->walk;
    uint32_t found = 0, stack;
    int most = (int)zg_config.stack_depth, depth = most;
    if (ZG_UNLIKELY(__atomic_load_n(&zg_depot_is_scarce, __ATOMIC_RELAXED)))
        depth = zg_depot_depth(zg_stats_get(zg_counter_stacks_captured) + thread->captures, most);
    if (own_stack) {
        found = depth < most ? find_whole(thread, caller, most)
                             : zg_trail_capture(&thread->trail, caller, &thread->stack, depth, true);
    }
    bool by_trail = found;
    zg_observe_answer(by_trail ? zg_answer_trail : zg_answer_walk);
    if (!by_trail) {
        zg_unwind_fast(caller, &thread->stack, depth, walk);
        found = zg_depot_put(walk->frames, walk->count);
        if (!found) { // the depot is full
            found = zg_depot_put(walk->frames, depth = 1);
            walk->repeatable = false;
        }
        thread->shortened += depth < most && walk->count >= depth;
    }
    stack = allocates ? mark(found) : found & ~ZG_DEPOT_SETTLED;
    // A walk of the whole stack costs so much more than a hit that it is kept at once.
    if ((by_trail || depth < most) && !zg_stack_cache_wants(&thread->stack_cache, caller, stack)) return stack;
    if (by_trail) zg_trail_describe(&thread->trail, caller.sp, walk);
    zg_stack_cache_add(&thread->stack_cache, caller, walk, stack);
    return stack;
}

uint32_t zg_capture_slow(struct zg_thread *thread, struct zg_caller caller, bool allocates) {
    if (ZG_UNLIKELY(!zg_config.stack_depth)) return 0;
    // Where coroutines' stacks lie below the thread's own, that is asked once, and now and then: they may become the thread's.
    if (ZG_UNLIKELY(caller.sp < thread->stack.low) &&
        (!zg_unwind_has_read(caller.sp) || thread->captures % EXTENSION_PERIOD == 0))
        zg_thread_extend_stack(&thread->stack, caller.sp);
    thread->captures++;
    // What is known is of this thread's own stack: on another one (a coroutine's) its words must not be read.
    bool own_stack = caller.sp >= thread->stack.low && caller.sp < thread->stack.high;
    struct zg_stack_cache *cache = &thread->stack_cache;
    uint32_t stack = own_stack ? zg_stack_cache_find(cache, caller, zg_stack_cache_key(cache, caller)) : 0;
    return stack ? stack : capture_new(thread, caller, own_stack, allocates);
}

void zg_capture_settle(struct zg_thread *thread) {
    struct zg_caller caller = {thread->frame[1], zg_arch_caller_sp(thread->frame), thread->frame[0]};
    zg_stack_cache_clear(&thread->stack_cache, caller, ZG_STACK_FENCE);
}
