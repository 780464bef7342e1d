// When memory is looked after: on the slow path, and from a thread of our own once there is enough to give back.
// Stands beside the heap, which calls zg_maintenance_look and whose zg_heap_relieve it calls.

#ifndef ZG_MAINTENANCE_H
#define ZG_MAINTENANCE_H

#include "platform/base.h"

struct zg_thread;

void zg_maintenance_start(void);
// No thread is started any more, and a running one does nothing more.
void zg_maintenance_stop(void);
// `from_main_thread`: the parent's thread that called fork was its main thread.
void zg_maintenance_after_fork_in_child(bool from_main_thread);

// At each refill and flush: looks whether memory is short, when it is time to. The thread is entered.
void zg_maintenance_look(struct zg_thread *thread);
// The program is about to make a thread of its own: the occasion to make ours. Not entered.
void zg_maintenance_before_thread(void);
// An errand (zg_errand_start_thread): starts the thread if the calling stack allows it. Not entered; `frame` is the frame
// address of the published function that is being left.
void zg_maintenance_try_start(const uint64_t *frame);

// One look and its step, whatever the time. For tests.
void zg_maintenance_poll(struct zg_thread *thread);
// The stack that begins at the published function's frame ends at the process's or a thread's first function, and neither
// the loader nor, but for those outermost functions, libc stands in it.
bool zg_maintenance_stack_is_plain(const uint64_t *frame);

#endif
