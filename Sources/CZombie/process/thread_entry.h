// Entering and leaving the runtime: registration at a thread's first call, the hand-over of what it holds at its end, and the
// errands that are picked up when the runtime is left.
// While a thread is inside, a signal handler that allocates is served by libc and its frees of our blocks are deferred.
// Hot path; registration and end: slow path. Locks: the thread list's, and that of the state which threads share after their end.

#ifndef ZG_THREAD_ENTRY_H
#define ZG_THREAD_ENTRY_H

#include "threads/thread.h"

// The thread's state with `busy` set; NULL where this thread is inside the runtime already (a signal handler, or the
// runtime's own calls into libc). The first call of the process initialises the heap.
// `frame` is the frame address of the published function.
ZG_INLINE struct zg_thread *zg_thread_enter(const uint64_t *frame);
ZG_INLINE void zg_thread_leave(struct zg_thread *thread);
// The same where it takes a few instructions; NULL where it takes more.
ZG_INLINE struct zg_thread *zg_thread_enter_quickly(const uint64_t *frame);

// The calling thread's blocks come from libc until as many calls of the other function: for work of our own in the program's process,
// such as naming frames, which must not take what the program's blocks are watched with. Frees of guarded blocks are carried out
// meanwhile. A thread that has no state of its own, or is inside the runtime, goes on as before, as do
// all where another allocator than libc may be asked.
void zg_thread_begin_bypass(const uint64_t *frame);
void zg_thread_end_bypass(void);
// Enters for one call in between, and leaves; NULL where the thread has not stepped aside.
struct zg_thread *zg_thread_enter_from_bypass(const uint64_t *frame);
void zg_thread_leave_to_bypass(struct zg_thread *thread);

void zg_thread_init_keys(void);
// The program is about to make a thread.
void zg_thread_before_new(void);
// `alone`: no other thread exists that could hold a lock.
void zg_thread_fork_prepare(bool alone);
void zg_thread_fork_done(bool child, bool alone);

// Who carries zg_deferred_thread_start out, which needs to enter the runtime itself (process/watch.h). Not entered; `frame` is the
// frame address of the published function that is being left. Set at the start; until then the errand is dropped.
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
    // Twice: a handler's call in between leaves its own frame behind, and the frame of a busy thread is never an older one.
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
