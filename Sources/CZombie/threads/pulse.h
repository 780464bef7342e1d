// Records when the calling thread waits for events and when it runs (collect=stalls), for zguard to read. Any context;
// no lock.

#ifndef ZG_PULSE_H
#define ZG_PULSE_H

#include "include/zg_stalls.h"
#include "platform/base.h"

struct zg_thread;

extern struct zg_pulses *zg_pulses; // NULL unless stalls are collected

// Starts recording to the run's table. Call once, at start-up.
void zg_pulse_start(struct zg_pulses *table);
// What a thread waits for: a file descriptor (0 and above), or one of these constants.
enum zg_waits_for {
    zg_waits_for_nothing = -1, // a poll without waiting, or a sleep
    zg_waits_for_several = -2, // several descriptors
};

// Call around each wait. NULL: this thread is not watched. errno is preserved. `file` may be an enum zg_waits_for;
// `result` is that of poll.
struct zg_pulse *zg_pulse_wait_begins(void);
void zg_pulse_wait_ends(struct zg_pulse *pulse, int file, long result);
void zg_pulse_thread_ends(struct zg_thread *thread);
void zg_pulse_after_fork_in_child(void);

#endif
