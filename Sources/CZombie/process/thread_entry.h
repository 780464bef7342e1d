// Enters and leaves the runtime, registers a thread at its first call, hands over its blocks when it ends, and runs
// deferred work when the runtime is left.
// While a thread is in the runtime, libc serves allocations of its signal handlers, and their frees of guarded blocks
// are deferred.
// Hot path; registration and thread end are slow paths. Takes the lock of the thread list, and the lock of the state
// that ended threads share.

#ifndef ZG_THREAD_ENTRY_H
#define ZG_THREAD_ENTRY_H

#include "threads/thread.h"

// Enters the runtime: returns the thread's state with `in_runtime` set. NULL if the thread is in the runtime already (a
// signal handler, or the runtime's own calls into libc) or in the bypass, or if the heap or the thread's state could
// not be created. The first call of the process initializes the heap.
// `frame` is the frame address of the published function.
ZG_INLINE struct zg_thread *zg_thread_enter(const uint64_t *frame);
ZG_INLINE void zg_thread_leave(struct zg_thread *thread);
// Like zg_thread_enter, but returns NULL if entering takes more than a few instructions.
ZG_INLINE struct zg_thread *zg_thread_enter_quickly(const uint64_t *frame);

// Starts the bypass: libc serves the calling thread's allocations until the matching end; calls nest. For the runtime's
// own work in the program's process, such as symbolizing frames, which must not use up the coverage of the program's
// blocks. Frees of guarded blocks still take effect. Has no effect in a thread that has no state of its own or is in
// the runtime, or if an allocator other than libc may be present.
void zg_thread_begin_bypass(const uint64_t *frame);
void zg_thread_end_bypass(void);
// Enters the runtime for one call during the bypass; NULL if the thread is not in the bypass. zg_thread_leave_to_bypass
// leaves the runtime again.
struct zg_thread *zg_thread_enter_from_bypass(const uint64_t *frame);
void zg_thread_leave_to_bypass(struct zg_thread *thread);

void zg_thread_init_keys(void);
// Called before the program creates a thread.
void zg_thread_before_new(void);
// `alone`: the process has one thread, so no lock needs to be taken.
void zg_thread_fork_prepare(bool alone);
void zg_thread_fork_done(bool child, bool alone);

// Runs zg_deferred_thread_start, which has to enter the runtime itself (process/maintenance_thread.h). Called outside
// the runtime; `frame` is the frame of the published function being left. NULL until start-up sets it; until then, the
// deferred work is dropped.
extern void (*zg_thread_start_watcher)(const uint64_t *frame);

#ifdef ZG_CHECK_INVARIANTS
void zg_thread_visit(void (*visit)(const struct zg_thread *thread));
#endif

// -- inline part --

struct zg_thread *zg_thread_enter_slow(const uint64_t *frame);
void zg_thread_leave_slow(struct zg_thread *thread);

ZG_INLINE struct zg_thread *zg_thread_enter_quickly(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_self;
    if (ZG_UNLIKELY(!thread || thread->in_runtime)) return NULL;
    // Store `frame` twice. The second store replaces the frame that a signal handler's call in between leaves behind.
    // The first ensures that a thread in the runtime never has an older call's frame.
    thread->frame = frame;
    ZG_SIGNAL_FENCE();
    thread->in_runtime = 1;
    ZG_SIGNAL_FENCE();
    thread->frame = frame;
    ZG_SIGNAL_FENCE();
    return thread;
}

ZG_INLINE struct zg_thread *zg_thread_enter(const uint64_t *frame) {
    struct zg_thread *thread = zg_thread_enter_quickly(frame);
    return ZG_LIKELY(thread != NULL) ? thread : zg_thread_enter_slow(frame);
}

ZG_INLINE void zg_thread_leave(struct zg_thread *thread) {
    ZG_SIGNAL_FENCE();
    if (ZG_UNLIKELY(thread->deferred_work)) {
        zg_thread_leave_slow(thread);
        return;
    }
    thread->in_runtime = 0;
}

#endif
