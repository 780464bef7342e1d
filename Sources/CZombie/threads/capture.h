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
// The same where the thread's cache knows the stack. 0: it does not. `frame` is the thread's, which is at hand.
ZG_INLINE uint32_t zg_capture_known(struct zg_thread *thread, const uint64_t *frame);
// Captures of the caller's stack come without ZG_STACK_FENCE from now on.
void zg_capture_settle(struct zg_thread *thread);
// The next capture of every stack has it again, whatever its context had before.
void zg_capture_ask_again(void);

// -- inline part --

// The same where another entry than the set's first one may be the stack's.
ZG_KEEPS_REGISTERS uint32_t zg_capture_known_further(struct zg_thread *thread, const uint64_t *frame);
// Where zg_capture_known may have looked in vain.
uint32_t zg_capture_slow(struct zg_thread *thread, bool allocates);

ZG_INLINE struct zg_caller zg_capture_caller(const uint64_t *frame) {
    return (struct zg_caller){frame[1], zg_arch_caller_sp(frame), frame[0]};
}

// A stack that was captured before, on the thread's own stack; with stack_depth=0 no entry exists.
ZG_INLINE uint32_t zg_capture_known(struct zg_thread *thread, const uint64_t *frame) {
    struct zg_caller caller = zg_capture_caller(frame);
    struct zg_stack_cache *cache = &thread->stack_cache;
    uint64_t key = zg_stack_cache_key(cache, caller);
    struct zg_cache_set *set = zg_stack_cache_set(cache, key);
    if (ZG_LIKELY(set->keys[0] == key)) {
        const struct zg_cached_stack *entry = zg_stack_cache_entry(cache, set->places[0]);
        if (ZG_LIKELY(zg_cached_stack_is_unchanged(entry, caller))) {
            set->resistance = ZG_CACHE_RESISTANCE;
            return entry->stack;
        }
    }
    return zg_capture_known_further(thread, frame);
}

ZG_INLINE uint32_t zg_capture(struct zg_thread *thread, bool allocates) {
    uint32_t stack = zg_capture_known(thread, thread->frame);
    return ZG_LIKELY(stack != 0) ? stack : zg_capture_slow(thread, allocates);
}

// Test builds (Tests/Runtime/Captures) have an observer stand between the rest of the runtime and zg_capture, and no other way. It is
// told who answered, unless it was the cache.
enum zg_answer { zg_answer_cache, zg_answer_stack_diff, zg_answer_walk };
#ifdef ZG_OBSERVE_CAPTURES
void zg_observe_answer(enum zg_answer answer);
uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates);
#define zg_capture zg_observe_capture
#define zg_capture_unknown zg_observe_capture
#define zg_capture_known(thread, frame) ((void)(thread), (void)(frame), 0u)
#else
#define zg_observe_answer(answer) ((void)0)
#define zg_capture_unknown zg_capture_slow // by whoever has asked zg_capture_known
#endif

#endif
