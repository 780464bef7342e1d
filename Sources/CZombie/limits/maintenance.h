// When memory is looked after: at occasions on the slow path; a thread of our own (process/watch.h) does the same once there is
// enough to give back.

#ifndef ZG_MAINTENANCE_H
#define ZG_MAINTENANCE_H

#include "platform/base.h"
#include "pressure/pressure.h"
#include "threads/thread.h"

void zg_maintenance_start(void);
// No thread is started any more, and a running one does nothing more.
void zg_maintenance_stop(void);
// `from_main_thread`: the parent's thread that called fork was its main thread.
void zg_maintenance_after_fork_in_child(bool from_main_thread);

// After each refill and hand-over: looks whether memory is short, when it is time to. The thread is entered.
void zg_maintenance_look(struct zg_thread *thread);
// Does what was asked for through the statistics page. The thread is entered.
void zg_maintenance_answer(struct zg_thread *thread);
// One look and its step, whatever the time. For tests.
void zg_maintenance_poll(struct zg_thread *thread);

// -- for the thread of our own --

enum { zg_maintenance_no_thread, zg_maintenance_thread_starts, zg_maintenance_thread_runs };
struct zg_maintenance {
    bool on, stopped;
    uint32_t thread;   // one of the three above
    uint64_t short_ns; // when memory was last short; 0: never
    struct zg_pressure_course course;
};
extern struct zg_maintenance zg_maintenance;

// A process with less to give back is not looked at. / So much is worth it.
#define ZG_WORTH_LOOKING ((uint64_t)4 << 20)
#define ZG_WORTH_RELIEVING ((uint64_t)1 << 20)

// One caller at a time looks: false where another does. / It has looked.
bool zg_maintenance_begin(void);
void zg_maintenance_end(void);
// In between: reads, and takes the step that follows. The thread is entered.
void zg_maintenance_take_look(struct zg_thread *thread, enum zg_pressure_reach reach);
// Gives back what is dead or free. The thread is entered.
void zg_maintenance_relieve(struct zg_thread *thread);
// What that would give back, roughly.
uint64_t zg_maintenance_backed_bytes(void);
bool zg_maintenance_is_worth_a_thread(void);
bool zg_maintenance_may_have_thread(void);

#endif
