// Handlers of programs that are running for a signal, and the faults that they were called for: a part of the page of the run
// (zg_coverage.h). Where the process ends while its handler runs, in a way that nothing in the process sees (SIGKILL, a second fault while the signal
// is blocked, a system call past libc), zguard finds here what the program had faulted at. Shared with readers outside.

#ifndef ZG_HANDLED_PAGE_H
#define ZG_HANDLED_PAGE_H

#include <stdint.h>

enum { ZG_HANDLER_CALLS = 64, ZG_HANDLED_FAULTS = 8, ZG_HANDLED_FAULT_BYTES = 16384 };

// A handler that runs. `pid` and `tid` as the process knows itself; pid 0: the entry is free.
struct zg_handler_call {
    uint32_t pid, tid, signal, spare;
};

enum zg_handled_state {
    zg_handled_free,
    zg_handled_claimed, // being written
    zg_handled_held,    // complete: the finding to report if the process ends now
};

struct zg_handled_fault {
    uint32_t state; // enum zg_handled_state
    uint32_t pid, tid;
    uint32_t bytes; // of the text
    char text[];    // the finding as a JSON line, up to ZG_HANDLED_FAULT_BYTES from the beginning of the record
};

// From ZG_HANDLED_PLACE of the page on; the faults begin a page further on.
#define ZG_HANDLED_PLACE 16384u
#define ZG_HANDLED_CALLS_BYTES 4096u
#define ZG_HANDLED_BYTES 135168u

_Static_assert(ZG_HANDLED_BYTES == ZG_HANDLED_CALLS_BYTES + ZG_HANDLED_FAULTS * ZG_HANDLED_FAULT_BYTES, "a sum");

_Static_assert(ZG_HANDLER_CALLS * sizeof(struct zg_handler_call) <= ZG_HANDLED_CALLS_BYTES, "the calls have room");

#endif
