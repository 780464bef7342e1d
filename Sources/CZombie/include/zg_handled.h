// Signal handlers of the program that are running, and the faults that they handle: part of the run's page
// (zg_coverage.h).
// If the process ends inside its handler and the runtime cannot see it (SIGKILL, a second fault while the signal is
// blocked, a direct exit system call), zguard reads here which fault the program was handling. Readers outside use
// these layouts.

#ifndef ZG_HANDLED_PAGE_H
#define ZG_HANDLED_PAGE_H

#include <stdint.h>

enum { ZG_HANDLER_CALLS = 64, ZG_HANDLED_FAULTS = 8, ZG_HANDLED_FAULT_BYTES = 16384 };

// A running handler. `pid` and `tid` are ids in the process's own PID namespace. pid 0: the entry is free.
struct zg_handler_call {
    uint32_t pid, tid, signal, spare;
};

enum zg_handled_state {
    zg_handled_free,
    zg_handled_claimed, // the description is being written
    // Complete: zguard reports this finding if the process ends now.
    zg_handled_held,
};

struct zg_handled_fault {
    uint32_t state; // enum zg_handled_state
    uint32_t pid, tid;
    uint32_t bytes; // size of the text
    // The finding as a JSON line. The whole record has ZG_HANDLED_FAULT_BYTES.
    char text[];
};

// Offset of the running handlers in the run's page. The faults begin ZG_HANDLED_CALLS_BYTES behind it.
#define ZG_HANDLED_PLACE 16384u
#define ZG_HANDLED_CALLS_BYTES 4096u
#define ZG_HANDLED_BYTES 135168u

_Static_assert(ZG_HANDLED_BYTES == ZG_HANDLED_CALLS_BYTES + ZG_HANDLED_FAULTS * ZG_HANDLED_FAULT_BYTES, "a sum");

_Static_assert(ZG_HANDLER_CALLS * sizeof(struct zg_handler_call) <= ZG_HANDLED_CALLS_BYTES, "the calls have room");

#endif
