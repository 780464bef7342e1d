// Since when threads do not wait for events (collect=stalls): a table on the page of the run (zg_coverage.h), a pulse for each thread
// that is looked at. The thread writes when it begins to wait and when it goes on; zguard looks now and then, and stops the thread for
// a moment where it is busy for long. The process sends a message with the pulse's index (zg_run_directory.h), since any process of the
// run could write another's numbers into a pulse. Shared with readers outside.

#ifndef ZG_STALLS_H
#define ZG_STALLS_H

#include <stdint.h>

enum { ZG_PULSES = 120, ZG_PULSE_BYTES = 64, ZG_PULSE_WAITS = 2 };

enum zg_pulse_state {
    zg_pulse_free,
    zg_pulse_claimed,
    zg_pulse_beats,
    zg_pulse_pool,  // of a process: the threads of Swift's pool are looked at from outside
    zg_pulse_queue, // of a process: Dispatch's main queue is
};

// A line of the cache each.
struct zg_pulse {
    uint32_t state;    // enum zg_pulse_state
    uint32_t pid, tid; // as the process knows itself
    uint32_t number;   // the runtime's of the thread
    uint64_t nonce;    // what stands at `place` in the process's memory
    uint64_t place;
    union {
        uint64_t busy_since; // in ticks; 0: the thread waits
        uint64_t queue;      // the main queue's address (zg_pulse_queue)
    };
    // What it has waited for, none counted further than ZG_PULSE_WAITS: that tells a loop of events from a program that waits now and then.
    uint8_t waits;       // for several things, or for some time
    uint8_t times;       // of these, that ended because the time was over
    uint8_t singles;     // for one thing, which came
    uint8_t calls;       // waits of any kind
    int32_t file;        // that one
    uint64_t busy_until; // when the last time that zguard has watched was over
    // Written by zguard: the lower half of the `busy_since` whose end it wants to know. 0: of none; what it watches is odd.
    uint32_t watched;
    // Written by zguard, a futex: the thread is being stopped, and does not begin to wait meanwhile.
    uint32_t is_sampled;
};
_Static_assert(sizeof(struct zg_pulse) == ZG_PULSE_BYTES, "two threads never write to one line of the cache");

struct zg_pulses {
    uint32_t is_wanted; // there is a process that is looked at
    uint32_t stall_ms, stall_times, spare;
    uint64_t spares[6];
    struct zg_pulse pulses[ZG_PULSES];
};

#endif
