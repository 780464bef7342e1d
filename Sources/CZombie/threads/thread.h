// The per-thread state: magazines of free slots, freed blocks on their way into the quarantine, counters.
// A thread is in the runtime while `in_runtime` is set (process/thread_entry.h). Hot path; no lock.

#ifndef ZG_THREAD_H
#define ZG_THREAD_H

#include "blocks/slab.h"
#include "platform/base.h"
#include "stacks/pairs.h"
#include "stacks/stack_cache.h"
#include "stacks/stack_diff.h"
#include "stacks/unwind.h"

enum {
    ZG_PENDING_BLOCKS = 64,
    ZG_EVICTED_BLOCKS = 64,
    ZG_DEFERRED_FREES = 64,
    ZG_BUDGET_CONTEXT_BITS = 11,
    ZG_SHORTENED_STACKS = 2048,
    ZG_SIBLING_STACKS = 4096,
    ZG_KNOWN_CALLERS = 64
};

// Deferred work: a low layer requests it, and a higher layer does it when the thread leaves the runtime.
enum zg_deferred_work {
    // Done before the runtime is left:
    zg_deferred_frees = 1,       // carry out deferred frees
    zg_deferred_maintenance = 2, // check memory pressure, requests and guard pages of new blocks
    // Done after the runtime is left:
    zg_deferred_abort = 4,          // a finding ends the program
    zg_deferred_swift_check = 8,    // the first Swift object was freed
    zg_deferred_thread_start = 16,  // start the runtime's own thread: there is enough memory to return
    zg_deferred_unlock = 32,        // release the state that ended threads share
    zg_deferred_handler_check = 64, // check whether the handler that was called for a fault has been left
};

// A jump to make once the runtime is left (entry/jump.h)
typedef void zg_jump_function(void *environment, int value);
struct zg_jump {
    zg_jump_function *function;
    void *environment;
    int value;
    uint64_t mask; // signal mask at the program's jump
};

struct zg_thread {
    uint32_t in_runtime;        // the thread executes runtime code
    uint32_t number;            // dense, from 1; 0 for the state that ended threads share
    uint16_t number_in_records; // `number`, or 65535 if that is larger
    int tid;
    uint32_t destructor_rounds; // times that the thread-exit destructor has run
    struct zg_stack_bounds stack;
    // Lower bound of the stack address of the thread's outermost frame
    uint64_t first_frame;
    // `next` links all states, `next_recycled` those of ended threads
    struct zg_thread *next, *next_recycled;
    uint32_t deferred_work; // enum zg_deferred_work; if not 0, leaving takes the slow path
    const uint64_t *frame;  // frame address of the published function that was called

    // The runtime's alternate signal stack; NULL if signals are not handled or the stacks are left to the program
    void *alternate_stack;
    uint64_t alternate_stack_bytes;
    // The runtime's alternate signal stack, as above; also set while the kernel uses the program's alternate stack
    void *reserve_stack;
    uint64_t reserve_stack_bytes;
    struct {
        void *start; // alternate stack of the program whose handler runs on the reserve stack; NULL if none
        uint64_t bytes;
    } moved;
    struct {
        // The thread's whole alternate stack, while a handler runs on the interrupted stack and the kernel knows only
        // the lower part of the alternate stack; NULL at other times
        void *start;
        uint64_t bytes;
    } lowered;
    // `faults_hidden`: fault signals that the program believes are blocked. `hidden_with`: the other signals of the
    // mask with which the program blocked them (signals.c)
    uint64_t faults_hidden, hidden_with;

    // The program's signal handler that the thread is in (faults/handled.h); NULL if none
    struct zg_handled *handled;

    bool skips_isolation; // the thread's blocks replace another allocator's and are never isolated

    uint32_t bypass_depth; // nesting depth of the bypass

    // Counts since the last flush to the statistics page
    uint64_t allocations, frees, allocated_bytes, freed_bytes, shortened, zombies, windowed, tagged, guarded;
    uint64_t slow_captures; // captures that missed the cache's first entry; never reset
    // Time of free for zombies' records (struct zg_death), renewed at every 8th zombie
    uint32_t time;
    uint64_t waits_after; // ticks from which the thread may delay a retain again (process/count_observer.c)

    // C++: address of the list of exceptions that the thread handles. Swift: type and throw stack of the last typed
    // throw; throw stack of the uncaught error that ends the program (process/throws.c)
    uint64_t cxx_handled, typed_throw_type;
    uint32_t uncaught_stack, typed_throw_stack;

    struct zg_heartbeat *heartbeat; // NULL if the thread is not watched
    uint64_t waits;                 // waits counted while `heartbeat` is NULL

    struct zg_jump jump; // jump by the program out of a handler that interrupted the runtime

    // Address range of the blocks that the runtime accesses now (zg_thread_begin_access)
    uint64_t accessed_start, accessed_end;

    // `pending_counted`: number of pending blocks that the counts above include.
    uint32_t pending_count, pending_counted;
    uint32_t pending_contexts[ZG_PENDING_BLOCKS];
    zg_slot pending[ZG_PENDING_BLOCKS]; // filled, state quarantined, not in a queue yet
    // Blocks evicted from the quarantine. Kept here, because the program's stack may be small
    zg_slot evicted[ZG_EVICTED_BLOCKS];

    uint32_t deferred_free_count;
    void *deferred_frees[ZG_DEFERRED_FREES]; // frees by signal handlers that interrupted the runtime

    struct zg_pair_cache pairs;
    struct zg_magazine magazines[ZG_CLASS_COUNT];
    struct zg_stack_cache stack_cache;
    // New stacks (capture.c): number of stacks to record before the next one is timed, and number of untimed stacks
    // that are charged the time of the next timed one
    uint32_t untimed, timed_for;
    uint64_t stack_step; // value of zg_stack_time_step when the last stack was timed
    struct zg_stack_diff_cache stack_diff;
    struct zg_walk walk; // the capture in progress; kept here because the program's stack may be small
    // While new stacks are shortened: score of how often the depot knew the whole stack
    int whole_stack_score;
    // Number of whole stacks recorded so far, by the hash of their innermost frames
    uint8_t variants[ZG_SIBLING_STACKS];
    struct {
        // Recent shortened stacks
        uint64_t hash;
        uint32_t id;
    } shortened_stacks[ZG_SHORTENED_STACKS];
    // Recent callers: the pc shifted left by 1; bit 0 is set if the code lies in a library
    uint64_t caller_is_library[ZG_KNOWN_CALLERS];

    // Checks of calls of libc's functions (entry/witness.h): ticks that further checks may take, and the time (in
    // ticks) when this credit was last updated
    int64_t witness_credit;
    uint64_t witness_looked;

    // With an overhead budget (budget.h), per context: blocks still to be bypassed, and blocks guarded so far. Not in
    // thread-local storage, which would take room on the threads' stacks.
    uint16_t budget_left[1 << ZG_BUDGET_CONTEXT_BITS];
    uint8_t budget_guarded[1 << ZG_BUDGET_CONTEXT_BITS];
};

// Requests deferred work. Atomic only with respect to the thread's own signal handlers.
ZG_INLINE void zg_thread_request_deferred(struct zg_thread *thread, enum zg_deferred_work work) {
    __atomic_fetch_or(&thread->deferred_work, work, __ATOMIC_RELAXED);
}

// Between these two calls, the runtime accesses [start, end). If the program has protected a page of that range, the
// fault handler makes the page accessible again.
ZG_INLINE void zg_thread_begin_access(struct zg_thread *thread, uint64_t start, uint64_t end) {
    thread->accessed_start = start;
    thread->accessed_end = end;
}
ZG_INLINE void zg_thread_end_access(struct zg_thread *thread) { thread->accessed_end = 0; }

// Sets the stack and the thread of an allocation. Atomic, because other threads may read the record at the same time
// (lookup.h).
ZG_INLINE void zg_thread_record_allocation(const struct zg_thread *thread, struct zg_block *block, uint32_t stack) {
    __atomic_store_n(&block->alloc_stack, stack, __ATOMIC_RELAXED);
    __atomic_store_n(&block->alloc_thread, thread->number_in_records, __ATOMIC_RELAXED);
}

// Counts a freed block of this pair that was guarded before the program goes on.
ZG_INLINE void zg_thread_note_guarded(struct zg_thread *thread, uint64_t pair) {
    thread->guarded++;
    zg_pair_note_guarded(pair);
}

// The calling thread's state; NULL before its first call, or one of the three placeholders below
extern __thread struct zg_thread *zg_thread_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
// Placeholders in zg_thread_self for a thread without a usable state: after the thread's end; between two states (calls
// of signal handlers then count as nested); during the bypass. `in_runtime` is always set in them, which leads to the
// slow path.
extern struct zg_thread zg_thread_ended, zg_thread_between, zg_thread_bypassing;
// The state of a thread in the bypass, NULL otherwise
extern __thread struct zg_thread *zg_bypassing_state __attribute__((tls_model("initial-exec"), visibility("hidden")));

// All states ever created, newest first, linked by `next`; never unmapped. Adding needs the lock of thread_entry.c,
// reading needs no lock.
extern struct zg_thread *zg_threads;

// Returns the calling thread's state without entering, NULL if it has none. Any context.
struct zg_thread *zg_thread_current_or_null(void);
// Returns the calling thread's number, 0 if it has no state.
uint32_t zg_thread_number(void);
struct zg_stack_bounds zg_thread_stack_bounds(void);
// Lowers the known low end of a stack to `sp` if all pages between are readable.
void zg_thread_extend_stack(struct zg_stack_bounds *bounds, uint64_t sp);

// Adds to `frees` and `freed_bytes` the blocks that were freed since the last call.
ZG_INLINE void zg_thread_count_pending(struct zg_thread *thread) {
    uint32_t counted = thread->pending_counted, count = thread->pending_count;
    thread->frees += count - counted;
    for (; counted < count; counted++) thread->freed_bytes += zg_slot_bytes(thread->pending[counted]);
    thread->pending_counted = count;
}
// Adds the thread's counts to the statistics page.
void zg_thread_flush_counters(struct zg_thread *thread);
// Flushes the counts only if they are large, or early in the process's life: each addition takes the page's cache lines
// from the other threads.
void zg_thread_flush_many_counters(struct zg_thread *thread);

#endif
