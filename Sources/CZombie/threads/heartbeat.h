// Records when the calling thread waits for events and when it runs (collect=stalls), for zguard to read. Any context;
// no lock.

#ifndef ZG_HEARTBEAT_H
#define ZG_HEARTBEAT_H

#include "include/zg_stalls.h"
#include "platform/base.h"

struct zg_thread;

extern struct zg_heartbeats *zg_heartbeats; // NULL unless stalls are collected

// Starts recording to the run's table. Call once, at start-up.
void zg_heartbeat_start(struct zg_heartbeats *table);
// What a thread waits for: a file descriptor (0 and above), or one of these constants.
enum zg_waits_for {
    zg_waits_for_nothing = -1, // a poll without waiting, or a sleep
    zg_waits_for_several = -2, // several descriptors
};

// Call around each wait. NULL: this thread is not watched. errno is preserved. `file` may be an enum zg_waits_for;
// `result`: result of the wait, with the meaning of poll's result.
struct zg_heartbeat *zg_heartbeat_wait_begins(void);
void zg_heartbeat_wait_ends(struct zg_heartbeat *heartbeat, int file, long result);
void zg_heartbeat_thread_ends(struct zg_thread *thread);
void zg_heartbeat_after_fork_in_child(void);

#endif
