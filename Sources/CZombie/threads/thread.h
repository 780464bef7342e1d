// What the runtime keeps for each thread: magazines of free slots, blocks on their way into the quarantine, counters.
// A thread is inside the runtime while its `busy` flag is set (process/thread_entry.h). Hot path; no lock.

#ifndef ZG_THREAD_H
#define ZG_THREAD_H

#include "blocks/slab.h"
#include "platform/base.h"
#include "stacks/stack_cache.h"
#include "stacks/stack_diff.h"
#include "stacks/unwind.h"

enum {
    ZG_PENDING_BLOCKS = 64,
    ZG_EVICTED_BLOCKS = 64,
    ZG_DEFERRED_FREES = 64,
    ZG_BUDGET_CONTEXT_BITS = 11,
    ZG_SHORTENED_STACKS = 2048,
    ZG_STACK_FAMILIES = 4096,
    ZG_KNOWN_CALLERS = 64
};

// What is noticed below and done above, when the runtime is left.
enum zg_deferred_work {
    // Before it is left:
    zg_deferred_frees = 1,       // there are deferred frees
    zg_deferred_maintenance = 2, // a refill or a hand-over: the occasion to look at memory, requests and young guards
    // Once it is left:
    zg_deferred_abort = 4,          // a finding asks for the program's end
    zg_deferred_swift_check = 8,    // a Swift object was seen for the first time
    zg_deferred_thread_start = 16,  // there is enough to give back for a thread of our own
    zg_deferred_unlock = 32,        // the state is the one that threads share after their end
    zg_deferred_handler_check = 64, // a handler was called for a fault: it may have been left
};

// What is to be jumped to once the runtime is left (entry/jump.h).
typedef void zg_jump_function(void *environment, int value);
struct zg_jump {
    zg_jump_function *function;
    void *environment;
    int value;
    uint64_t mask; // of signals, when the program jumped
};

struct zg_thread {
    uint32_t in_runtime;        // inside the runtime
    uint32_t number;            // dense, from 1; 0: the state that threads share after their end
    uint16_t number_in_records; // the same, at most 65535
    int tid;
    uint32_t destructor_rounds; // how often the thread-exit destructor has run
    struct zg_stack_bounds stack;
    uint64_t first_frame;                   // where the thread's own outermost frames are, as far as is known
    struct zg_thread *next, *next_recycled; // of all threads; of those states that no thread has
    uint32_t deferred_work;                 // enum zg_deferred_work; not 0: leaving takes the slow way
    const uint64_t *frame;                  // frame address of the published function that was entered

    void *alternate_stack; // ours, for faults; NULL where signals are not handled
    uint64_t alternate_stack_bytes;
    void *reserve_stack; // the same, also where the program has been left the alternate stacks
    uint64_t reserve_stack_bytes;
    struct {
        void *start; // the program's alternate stack whose handler runs on the reserve; NULL: none
        uint64_t bytes;
    } moved;
    struct {
        // The alternate stack, of which the kernel has only the lower part while a handler runs elsewhere; NULL: none.
        void *start;
        uint64_t bytes;
    } lowered;
    // Signals of faults that the program believes to be held back, and the mask with which it does (signals.c).
    uint64_t faults_hidden, hidden_with;

    // The program's signal handler that the thread is in (faults/handled.h); NULL: in none.
    struct zg_handled *handled;

    bool is_unfenced; // what it allocates stands in for another allocator's blocks, and gets no pages of its own

    uint32_t bypass_depth; // how often it has stepped aside and not come back

    // Counts since the last flush to the statistics page.
    uint64_t allocations, frees, allocated_bytes, freed_bytes, shortened, zombies, windowed, tagged;
    uint64_t slow_captures; // whose stack the cache did not know at its first look; never reset
    uint32_t time;          // of a zombie of late, as in struct zg_death
    uint64_t waits_after;   // in ticks: when it may wait for races again (process/count_observer.c)

    // Errors (process/throws.c): where C++'s runtime keeps what the thread handles; where that of Swift was thrown by which it ends the
    // program, and its last one that was thrown typed.
    uint64_t cxx_handled, typed_throw_type;
    uint32_t uncaught_stack, typed_throw_stack;

    struct zg_pulse *pulse; // NULL: nobody looks at its waits
    uint64_t waits;         // seen of a thread without one (pulse.c)

    struct zg_jump jump; // that the program has made out of a handler which interrupted the runtime

    // What is being filled: a page in it that the program has protected is opened again by the fault handler.
    uint64_t filling_start, filling_end;

    uint32_t pending_count, pending_counted; // so many of them are in the counts above
    uint32_t pending_contexts[ZG_PENDING_BLOCKS];
    zg_slot pending[ZG_PENDING_BLOCKS]; // filled, state quarantined, not yet in a queue
    zg_slot evicted[ZG_EVICTED_BLOCKS]; // on their way out of it: the program's stack may be small

    uint32_t deferred_free_count;
    void *deferred_frees[ZG_DEFERRED_FREES]; // frees of a signal handler that interrupted the runtime

    struct zg_magazine magazines[ZG_CLASS_COUNT];
    struct zg_stack_cache stack_cache;
    // New stacks (capture.c): how many are still recorded before one is timed, and how many that stands for.
    uint32_t untimed, timed_for;
    uint64_t stack_step; // as zg_stack_time_step was then
    struct zg_stack_diff_cache stack_diff;
    struct zg_walk walk; // of the capture that is going on: the program's stack may be small
    // While new stacks are shortened: how likely the depot still knows a whole one; how many stacks with some innermost frames were recorded
    // whole, by a hash of these frames; of shortened ones of late, by the same hash, the ids; of callers, whether they are libraries.
    int whole_stacks;
    uint8_t variants[ZG_STACK_FAMILIES];
    struct {
        uint64_t hash;
        uint32_t id;
    } shortened_stacks[ZG_SHORTENED_STACKS];
    uint64_t callers[ZG_KNOWN_CALLERS];

    // With an overhead budget (budget.h), for each context: blocks that are still passed on, and how many were guarded. Not in
    // thread-local storage, which is taken from the threads' stacks.
    uint16_t budget_left[1 << ZG_BUDGET_CONTEXT_BITS];
    uint8_t budget_guarded[1 << ZG_BUDGET_CONTEXT_BITS];
};

// Atomic for the thread alone: a signal handler may want something in between.
ZG_INLINE void zg_thread_request_deferred(struct zg_thread *thread, enum zg_deferred_work errand) {
    __atomic_fetch_or(&thread->deferred_work, errand, __ATOMIC_RELAXED);
}

// The calling thread's state, NULL before its first call; or one of the two below.
extern __thread struct zg_thread *zg_thread_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
// What zg_thread_self points to where a thread has no state of its own: after its end, and between two states, when a signal
// handler's calls count as nested ones; or where it has stepped aside, so that what it allocates is not guarded. All are busy for good,
// which leads to the slow way.
extern struct zg_thread zg_thread_ended, zg_thread_between, zg_thread_bypassing;
// The state of a thread that has stepped aside, NULL otherwise.
extern __thread struct zg_thread *zg_bypassing_state __attribute__((tls_model("initial-exec"), visibility("hidden")));

// All states that were ever made, linked by `next`, the newest first; none is unmapped. Who adds one holds the lock of thread_entry.c; who
// reads needs none.
extern struct zg_thread *zg_threads;

// The calling thread's state, without entering; NULL where it has none. Any context.
struct zg_thread *zg_thread_current_or_null(void);
// The number of the calling thread, 0 where it has none.
uint32_t zg_thread_number(void);
struct zg_stack_bounds zg_thread_stack_bounds(void);
// Lowers the known part of a stack to `sp`, if all between is readable.
void zg_thread_extend_stack(struct zg_stack_bounds *bounds, uint64_t sp);

// Counts the blocks that were freed since the last time.
ZG_INLINE void zg_thread_count_pending(struct zg_thread *thread) {
    uint32_t counted = thread->pending_counted, count = thread->pending_count;
    thread->frees += count - counted;
    for (; counted < count; counted++) thread->freed_bytes += zg_slot_bytes(thread->pending[counted]);
    thread->pending_counted = count;
}
// Adds the thread's counts to the statistics page.
void zg_thread_flush_counters(struct zg_thread *thread);

#endif
