// What the runtime keeps for each thread: magazines of free slots, blocks on their way into the quarantine, counters.
// A thread is inside the runtime while its `busy` flag is set: a signal handler that allocates meanwhile is served by
// libc and its frees of our blocks are deferred. Hot path.

#ifndef ZG_THREAD_H
#define ZG_THREAD_H

#include "heap/size_class.h"
#include "platform/base.h"
#include "process/jump.h"
#include "stacks/stack_cache.h"
#include "stacks/trail.h"
#include "stacks/unwind.h"

enum { ZG_MAGAZINE_SLOTS = 64, ZG_PENDING_BLOCKS = 64, ZG_DEFERRED_FREES = 64, ZG_BUDGET_CONTEXT_BITS = 11 };

struct zg_magazine {
    uint32_t count;
    uint32_t slots[ZG_MAGAZINE_SLOTS]; // slot numbers of one size class, the last is the next to go
};

// A freed slot: its number and class in one word.
typedef uint64_t zg_slot;
ZG_INLINE zg_slot zg_slot_make(uint32_t class, uint32_t index) { return (uint64_t)class << 32 | index; }
ZG_INLINE uint32_t zg_slot_class(zg_slot slot) { return (uint32_t)(slot >> 32); }
ZG_INLINE uint32_t zg_slot_index(zg_slot slot) { return (uint32_t)slot; }

enum zg_errand {
    zg_errand_abort = 1,       // a finding asks for the program's end
    zg_errand_check_swift = 2, // a Swift object was seen for the first time
    zg_errand_start_thread = 4, // there is enough to give back for a thread of our own
};

struct zg_thread {
    uint32_t busy;   // inside the runtime
    uint32_t number; // dense, from 1
    uint16_t number_in_records; // the same, at most 65535
    int tid;
    uint32_t exit_rounds; // not 0: leaving takes the slow way
    uint32_t destructor_rounds; // how often the thread-exit destructor has run
    struct zg_stack_bounds stack;
    struct zg_thread *next; // of all threads, or of the recycled ones
    bool in_use;
    uint32_t errands; // enum zg_errand: what is to be done once the runtime is left
    const uint64_t *frame; // frame address of the published function that was entered

    void *alternate_stack; // ours, for faults; NULL where signals are not handled
    uint64_t alternate_stack_bytes;
    // Signals of faults that the program believes to be held back, and the mask with which it does (signals.c).
    uint64_t faults_hidden, hidden_with;

    // Counts since the last flush to the statistics page.
    uint64_t allocations, frees, allocated_bytes, freed_bytes, captures, zombies;
    uint32_t time; // of a zombie of late, as in struct zg_death

    struct zg_jump jump; // that the program has made out of a handler which interrupted the runtime

    // What is being filled: a page in it that the program has protected is opened again by the fault handler.
    uint64_t filling_start, filling_end;

    uint32_t pending_count;
    uint32_t pending_contexts[ZG_PENDING_BLOCKS];
    zg_slot pending[ZG_PENDING_BLOCKS]; // filled, state quarantined, not yet in a queue

    uint32_t deferred_count;
    void *deferred[ZG_DEFERRED_FREES]; // frees of a signal handler that interrupted the runtime

    struct zg_magazine magazines[ZG_CLASS_COUNT];
    struct zg_stack_cache stack_cache;
    struct zg_trail trail;

    // With an overhead budget (budget.h), for each context: blocks that are still passed on, and how many were guarded. Not in
    // thread-local storage, which is taken from the threads' stacks.
    uint16_t budget_left[1 << ZG_BUDGET_CONTEXT_BITS];
    uint8_t budget_guarded[1 << ZG_BUDGET_CONTEXT_BITS];
};

// The thread's state with `busy` set; NULL where this thread is inside the runtime already (a signal handler, or the
// runtime's own calls into libc). The first call of the process initialises the heap.
// `frame` is the frame address of the published function.
ZG_INLINE struct zg_thread *zg_thread_enter(const uint64_t *frame);
ZG_INLINE void zg_thread_leave(struct zg_thread *thread);

// The caller's stack as recorded from the published function's frame: its id in the depot. `allocates`: with ZG_STACK_FENCE
// (fence.h) where that context is to have a fenced block; otherwise that bit means nothing.
ZG_INLINE uint32_t zg_thread_capture(struct zg_thread *thread, bool allocates);
// Captures of the caller's stack come without ZG_STACK_FENCE from now on.
void zg_thread_settle_context(struct zg_thread *thread);
// The number of the calling thread, 0 where it has none.
uint32_t zg_thread_number(void);
// The calling thread's state, without entering; NULL where it has none. For fault handling.
struct zg_thread *zg_thread_current_or_null(void);
struct zg_stack_bounds zg_thread_stack_bounds(void);
// Lowers the known part of a stack to `sp`, if all between is readable.
void zg_thread_extend_stack(struct zg_stack_bounds *bounds, uint64_t sp);

// Adds the thread's counts to the statistics page.
void zg_thread_flush_counters(struct zg_thread *thread);

void zg_thread_init_keys(void);
void zg_thread_fork_prepare(void);
void zg_thread_fork_done(bool child);

// -- inline part --

extern __thread struct zg_thread *zg_thread_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
struct zg_thread *zg_thread_enter_slow(const uint64_t *frame);
void zg_thread_leave_slow(struct zg_thread *thread);

ZG_INLINE struct zg_thread *zg_thread_enter(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_self;
    if (ZG_UNLIKELY(!thread || thread->busy)) return zg_thread_enter_slow(frame);
    // Twice: a handler's call in between leaves its own frame behind, and the frame of a busy thread is never an older one.
    thread->frame = frame;
    ZG_SIGNAL_FENCE();
    thread->busy = 1;
    ZG_SIGNAL_FENCE();
    thread->frame = frame;
    ZG_SIGNAL_FENCE();
    return thread;
}

uint32_t zg_thread_capture_slow(struct zg_thread *thread, struct zg_caller caller, bool allocates);

// A stack that was captured before, on the known part of the thread's own stack; with stack_depth=0 no entry exists.
ZG_INLINE uint32_t zg_thread_capture(struct zg_thread *thread, bool allocates) {
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
    return zg_thread_capture_slow(thread, caller, allocates);
}

ZG_INLINE void zg_thread_leave(struct zg_thread *thread) {
    ZG_SIGNAL_FENCE();
    if (ZG_UNLIKELY(thread->deferred_count | thread->exit_rounds | thread->errands)) {
        zg_thread_leave_slow(thread);
        return;
    }
    thread->busy = 0;
}

// Test builds (Tests/Runtime/Captures) have an observer stand between the rest of the runtime and the function above. It is told
// who answered, unless it was the cache.
enum zg_answer { zg_answer_cache, zg_answer_trail, zg_answer_walk };
#ifdef ZG_OBSERVE_CAPTURES
void zg_observe_answer(enum zg_answer answer);
uint32_t zg_observe_capture(struct zg_thread *thread, bool allocates);
#define zg_thread_capture zg_observe_capture
#else
#define zg_observe_answer(answer) ((void)0)
#endif

#endif
