// The stack capture methods that frames.c measures, in a library built from the runtime's sources like the product.
// Any thread may call these functions. They leave no allocated block behind.

#define UNW_LOCAL_ONLY
#include "capture.h"

#include <execinfo.h>
#include <libunwind.h>

#include "pages/private_pages.h"
#include "process/thread_entry.h"
#include "settings/config.h"
#include "stacks/depot.h"
#include "threads/capture.h"
#include "threads/thread.h"

#define EXPORTED __attribute__((visibility("default"), noinline))

enum { MOST = ZG_STACK_MAX_DEPTH + ZG_STACK_DIFF_STEP };

__attribute__((visibility("default"))) int capture_depth;
__attribute__((visibility("default"))) struct capture_seen capture_seen;

static volatile uint32_t kept; // keeps the compiler from removing the captures

EXPORTED void capture_entered(void) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    kept = thread->number;
    zg_thread_leave(thread);
}

EXPORTED void capture_product(void) {
    struct zg_thread *thread = zg_thread_enter(ZG_ARCH_FRAME());
    kept = zg_capture(thread, false);
    zg_thread_leave(thread);
}

static struct zg_caller caller_of(const uint64_t *frame) {
    return (struct zg_caller){frame[1], zg_arch_caller_sp(frame), frame[0]};
}

EXPORTED void capture_walk(void) {
    const uint64_t *frame = ZG_ARCH_FRAME();
    struct zg_thread *thread = zg_thread_enter(frame);
    struct zg_caller caller = caller_of(frame);
    struct zg_walk walk;
    if (caller.sp < thread->stack.low) zg_thread_extend_stack(&thread->stack, caller.sp);
    zg_unwind_fast(caller, &thread->stack, capture_depth, &walk);
    kept = (uint32_t)walk.count;
    zg_thread_leave(thread);
}

// libunwind and glibc capture this function's own frame as well, so this function and the next request one frame more.
EXPORTED void capture_libunwind(void) {
    void *frames[MOST];
    kept = (uint32_t)unw_backtrace(frames, capture_depth + 1);
}

EXPORTED void capture_backtrace(void) {
    void *frames[MOST];
    kept = (uint32_t)backtrace(frames, capture_depth + 1);
}

EXPORTED void capture_called(void) { kept = 0; }

static bool is_whole(uint32_t stack) {
    uint64_t frames[MOST];
    return stack && zg_depot_get(stack & ~(ZG_STACK_ISOLATE | ZG_DEPOT_CONTEXT_DONE), frames, MOST) == capture_depth;
}

EXPORTED void capture_look(void) {
    const uint64_t *frame = ZG_ARCH_FRAME();
    struct zg_thread *thread = zg_thread_enter(frame);
    struct zg_caller caller = caller_of(frame);
    struct zg_stack_cache *cache = &thread->stack_cache;
    uint32_t cached = zg_stack_cache_find(cache, caller, zg_stack_cache_key(cache, caller));
    capture_seen.cached += is_whole(cached);
    capture_seen.lost +=
        !is_whole(zg_stack_diff_capture(&thread->stack_diff, caller, &thread->stack, zg_config.stack_depth, true));
    zg_thread_leave(thread);
}
