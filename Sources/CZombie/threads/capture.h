// Captures the caller's stack trace as an id in the stack depot. Hot path if the thread's stack cache has the stack; no
// lock but the depot's.

#ifndef ZG_CAPTURE_H
#define ZG_CAPTURE_H

#include "platform/arch.h"
#include "threads/thread.h"

// Flag in a stack id: the context's next block should be isolated (pages/choice.h). Set only by captures that miss the
// thread's stack cache, so that cached contexts cost nothing.
#define ZG_STACK_ISOLATE UINT32_C(0x80000000)

// Returns the depot id of the stack trace from the published function's frame. `allocates`: sets ZG_STACK_ISOLATE if an
// isolated block is due for the context. Without `allocates`, this bit has no meaning.
ZG_INLINE uint32_t zg_capture(struct zg_thread *thread, bool allocates);
// Like zg_capture, but only looks in the thread's stack cache. Returns 0 on a miss. `frame` is thread->frame, which the
// caller has at hand.
ZG_INLINE uint32_t zg_capture_cached(struct zg_thread *thread, const uint64_t *frame);
// Later captures of the caller's stack return no ZG_STACK_ISOLATE. `stack`: its id without that flag.
void zg_capture_clear_isolation(struct zg_thread *thread, uint32_t stack);
// The next capture of every stack returns ZG_STACK_ISOLATE again, even if its context has already had all its isolated
// blocks.
void zg_capture_renew_isolation(void);

// -- inline part --

// Searches the other entries of the cache set, after a miss of the first.
ZG_KEEPS_REGISTERS uint32_t zg_capture_cached_ways(struct zg_thread *thread, const uint64_t *frame);
// Captures a stack that zg_capture_cached did not find.
uint32_t zg_capture_slow(struct zg_thread *thread, bool allocates);

ZG_INLINE struct zg_caller zg_capture_caller(const uint64_t *frame) {
    return (struct zg_caller){frame[1], zg_arch_caller_sp(frame), frame[0]};
}

// Looks up the stack in the cache. Only stacks on the thread's own stack have entries; with stack_depth=0 there are
// none.
ZG_INLINE uint32_t zg_capture_cached(struct zg_thread *thread, const uint64_t *frame) {
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
    return zg_capture_cached_ways(thread, frame);
}

ZG_INLINE uint32_t zg_capture(struct zg_thread *thread, bool allocates) {
    uint32_t stack = zg_capture_cached(thread, thread->frame);
    return ZG_LIKELY(stack != 0) ? stack : zg_capture_slow(thread, allocates);
}

// Test builds (Tests/Runtime/Captures) route every capture of the rest of the runtime through an observer.
// zg_observe_answer tells the observer which mechanism found the stack of a capture that missed the cache.
enum zg_answer { zg_answer_cache, zg_answer_stack_diff, zg_answer_walk };
#ifdef ZG_OBSERVE_CAPTURES
void zg_observe_answer(enum zg_answer answer);
uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates);
#define zg_capture zg_observe_capture
#define zg_capture_uncached zg_observe_capture
#define zg_capture_cached(thread, frame) ((void)(thread), (void)(frame), 0u)
#else
#define zg_observe_answer(answer) ((void)0)
#define zg_capture_uncached zg_capture_slow // for callers that have called zg_capture_cached
#endif

#endif
