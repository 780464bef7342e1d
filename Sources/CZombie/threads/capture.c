// Stacks that the thread's cache does not know at its first look. Slow path; the depot's lock.

#include "threads/capture.h"

#include "settings/config.h"
#include "stacks/depot.h"

// The context that the depot found or added, with the bit where fewer than fence_per_context of its blocks have been fenced.
static uint32_t mark(uint32_t found) {
    if (!found || found & ZG_DEPOT_SETTLED) return found & ~ZG_DEPOT_SETTLED;
    return zg_config.fence_per_context && zg_config.fence_per_context != ZG_FENCE_ALL ? found | ZG_STACK_FENCE : found;
}

// Along the trail, or where that cannot follow (another stack than the thread's own, signal frames) by a walk.
static ZG_NOINLINE uint32_t capture_new(struct zg_thread *thread, struct zg_caller caller, bool own_stack,
                                        bool allocates) {
    struct zg_walk *walk = &thread->walk;
    uint32_t found = 0, stack;
    bool by_trail =
        own_stack && (found = zg_trail_capture(&thread->trail, caller, &thread->stack, zg_config.stack_depth)) != 0;
    zg_observe_answer(by_trail ? zg_answer_trail : zg_answer_walk);
    if (!by_trail) {
        zg_unwind_fast(caller, &thread->stack, zg_config.stack_depth, walk);
        found = zg_depot_put(walk->frames, walk->count);
    }
    stack = allocates ? mark(found) : found & ~ZG_DEPOT_SETTLED;
    if (by_trail) {
        if (!zg_stack_cache_wants(&thread->stack_cache, caller, stack)) return stack;
        zg_trail_describe(&thread->trail, caller.sp, walk);
    }
    zg_stack_cache_add(&thread->stack_cache, caller, walk, stack);
    return stack;
}

uint32_t zg_capture_slow(struct zg_thread *thread, struct zg_caller caller, bool allocates) {
    if (ZG_UNLIKELY(!zg_config.stack_depth)) return 0;
    if (ZG_UNLIKELY(caller.sp < thread->stack.low)) zg_thread_extend_stack(&thread->stack, caller.sp);
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
