// The caller's stack as an id in the depot. Hot path where the thread's cache knows it; no lock but the depot's.

#ifndef ZG_CAPTURE_H
#define ZG_CAPTURE_H

#include "platform/arch.h"
#include "threads/thread.h"

// A stack id with this bit: the context's next block should be fenced (pages/choice.h). Set where a stack is captured that the
// thread's cache does not know, so that known contexts cost nothing.
#define ZG_STACK_FENCE UINT32_C(0x80000000)

// The caller's stack as recorded from the published function's frame: its id in the depot. `allocates`: with ZG_STACK_FENCE
// where that context is to have a fenced block; otherwise that bit means nothing.
ZG_INLINE uint32_t zg_capture(struct zg_thread *thread, bool allocates);
// Captures of the caller's stack come without ZG_STACK_FENCE from now on.
void zg_capture_settle(struct zg_thread *thread);
// The next capture of every stack has it again, whatever its context had before.
void zg_capture_ask_again(void);

// -- inline part --

uint32_t zg_capture_slow(struct zg_thread *thread, struct zg_caller caller, bool allocates);

// A stack that was captured before, on the known part of the thread's own stack; with stack_depth=0 no entry exists.
ZG_INLINE uint32_t zg_capture(struct zg_thread *thread, bool allocates) {
    struct zg_caller caller = {thread->frame[1], zg_arch_caller_sp(thread->frame), thread->frame[0]};
    struct zg_stack_cache *cache = &thread->stack_cache;
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    if (ZG_LIKELY(caller.sp - thread->stack.low < thread->stack.high - thread->stack.low && set->keys[0] == key &&
                  cache->epoch == __atomic_load_n(&zg_unwind_epoch, __ATOMIC_RELAXED))) {
        const struct zg_cached_stack *entry = &cache->entries[set->places[0]];
        if (ZG_LIKELY(zg_cached_stack_is_unchanged(entry, caller))) {
            set->resistance = ZG_CACHE_RESISTANCE;
            thread->captures++;
            return entry->stack;
        }
    }
    return zg_capture_slow(thread, caller, allocates);
}

// Test builds (Tests/Runtime/Captures) have an observer stand between the rest of the runtime and the function above. It is told
// who answered, unless it was the cache.
enum zg_answer { zg_answer_cache, zg_answer_trail, zg_answer_walk };
#ifdef ZG_OBSERVE_CAPTURES
void zg_observe_answer(enum zg_answer answer);
uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates);
#define zg_capture zg_observe_capture
#else
#define zg_observe_answer(answer) ((void)0)
#endif

#endif
