// Wait heartbeats (collect=stalls): since when each watched thread has not waited for events.
// The table is on the page of the run (zg_coverage.h). A thread writes to its heartbeat when it begins to wait and when
// it goes on. zguard reads the heartbeats regularly. If a thread is busy for long, zguard stops it briefly and takes
// its stack. Any process of the run can write false numbers into the heartbeat of another process, so zguard watches a
// heartbeat only after the heartbeat's process has sent the heartbeat's index in a message (zg_run_directory.h).
// Readers outside use these layouts.

#ifndef ZG_STALLS_H
#define ZG_STALLS_H

#include <stdint.h>

enum { ZG_HEARTBEATS = 120, ZG_HEARTBEAT_BYTES = 64, ZG_HEARTBEAT_WAITS = 2 };

enum zg_heartbeat_state {
    zg_heartbeat_free,
    zg_heartbeat_claimed,
    zg_heartbeat_beats,
    // The heartbeat stands for a process: zguard watches the threads of Swift's pool, which write no heartbeats.
    zg_heartbeat_pool,
    // The heartbeat stands for a process: zguard watches Dispatch's main queue.
    zg_heartbeat_queue,
};

// One cache line.
struct zg_heartbeat {
    uint32_t state;    // enum zg_heartbeat_state
    uint32_t pid, tid; // in the process's own PID namespace
    uint32_t number;   // the runtime's number of the thread
    // Random number by which zguard recognizes the process: the word at address `place` in the process has the same
    // value.
    uint64_t nonce;
    uint64_t place;
    union {
        uint64_t busy_since; // in ticks; 0: the thread waits
        uint64_t queue;      // address of the main queue (zg_heartbeat_queue)
    };
    // Numbers of completed waits by kind, each counted up to ZG_HEARTBEAT_WAITS. They distinguish an event loop from a
    // program that waits occasionally.
    uint8_t waits;       // waits for several files, and all waits that ended by a timeout
    uint8_t times;       // waits that ended by a timeout; `waits` includes them
    uint8_t singles;     // waits for one file, which became ready
    uint8_t calls;       // waits of any kind
    int32_t file;        // file descriptor of the last wait for one file
    uint64_t busy_until; // end of the busy time that `watched` asks for, in ticks
    // Written by zguard to ask when a busy time ended: the low half of that time's `busy_since`; 0: no question.
    // Nonzero times are odd, so their low half is not 0.
    uint32_t watched;
    // Written by zguard, a futex: the thread is being stopped and must not begin to wait.
    uint32_t is_sampled;
};
_Static_assert(sizeof(struct zg_heartbeat) == ZG_HEARTBEAT_BYTES, "two threads never write to one line of the cache");

struct zg_heartbeats {
    uint32_t is_wanted; // nonzero: a process asks to be watched
    uint32_t stall_ms, stall_times, spare;
    uint64_t spares[6];
    struct zg_heartbeat heartbeats[ZG_HEARTBEATS];
};

#endif
