// Observer of a test build: compares every capture with a walk from scratch, and traps if they differ. Once the depot
// has begun to shorten stacks, a capture may lack outer frames of the walk.
// Hot path; no lock.

#include "pages/private_pages.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"
#include "threads/capture.h"
#include "threads/thread.h"
#undef zg_capture

void zg_observe_answer(enum zg_answer answer) { (void)answer; }

uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates) {
    struct zg_caller caller = {thread->frame[1], zg_arch_caller_sp(thread->frame), thread->frame[0]};
    uint32_t stack = zg_capture(thread, allocates);
    if (!zg_config.stack_depth) return stack;
    struct zg_walk walk;
    uint64_t frames[ZG_STACK_MAX_DEPTH];
    int count = zg_depot_get(stack & ~ZG_STACK_ISOLATE, frames, zg_config.stack_depth);
    zg_unwind_fast(caller, &thread->stack, zg_config.stack_depth, &walk);
    bool shortens = zg_stats->degradations >> zg_degradation_stacks_shortened & 1;
    bool equal = count == walk.count || (shortens && count && count < walk.count);
    for (int i = 0; equal && i < count; i++) equal = frames[i] == walk.frames[i];
    if (!equal) __builtin_trap();
    return stack;
}
