// Schedules checks for memory pressure: on the slow path, or in the runtime's own thread (process/maintenance_thread.h)
// once there is enough memory to return.

#ifndef ZG_MAINTENANCE_H
#define ZG_MAINTENANCE_H

#include "platform/base.h"
#include "pressure/pressure.h"
#include "threads/thread.h"

void zg_maintenance_start(void);
// Ends maintenance: from then on, no thread is started, and a running thread does nothing.
void zg_maintenance_stop(void);
// `from_main_thread`: the thread that called fork was the parent's main thread.
void zg_maintenance_after_fork_in_child(bool from_main_thread);

// Checks for memory pressure if a check is due. Runs after slow allocations and frees (zg_deferred_maintenance). The
// thread is in the runtime.
void zg_maintenance_check(struct zg_thread *thread);
// Carries out a request made through the statistics page. The thread is in the runtime.
void zg_maintenance_handle_request(struct zg_thread *thread);
// Runs one check at once, and the pressure step that the check chooses. For tests.
void zg_maintenance_check_now(struct zg_thread *thread);

// -- for the runtime's own thread --

enum { zg_maintenance_no_thread, zg_maintenance_thread_starts, zg_maintenance_thread_runs };
struct zg_maintenance {
    bool on, stopped;
    uint32_t thread;   // one of the three constants above
    uint64_t short_ns; // time when memory was last short; 0: never
    struct zg_pressure_course course;
};
extern struct zg_maintenance zg_maintenance;

// A check is worthwhile if at least ZG_WORTH_LOOKING bytes can be returned to the kernel; returning memory is
// worthwhile if at least ZG_WORTH_RELIEVING bytes can.
#define ZG_WORTH_LOOKING ((uint64_t)4 << 20)
#define ZG_WORTH_RELIEVING ((uint64_t)1 << 20)

// Begins and ends a check. Begin returns false if another thread is checking.
bool zg_maintenance_begin(void);
void zg_maintenance_end(void);
// Reads the pressure sources and takes the resulting step. Call between begin and end. The thread is in the runtime.
void zg_maintenance_check_if_due(struct zg_thread *thread, enum zg_pressure_reach reach);
// Returns the memory of freed blocks and free pages to the kernel. The thread is in the runtime.
void zg_maintenance_relieve(struct zg_thread *thread);
// Estimates how many bytes zg_maintenance_relieve would return.
uint64_t zg_maintenance_backed_bytes(void);
bool zg_maintenance_is_worth_a_thread(void);
bool zg_maintenance_may_have_thread(void);

#endif
