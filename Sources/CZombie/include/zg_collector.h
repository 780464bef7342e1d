// How a dying process asks the zguard that runs it for the stacks of its threads. The process takes a place on the page of the run
// (zg_coverage.h), describes itself in a record of its own memory, sends a message (zg_run_directory.h), and waits on the place's futex.
// Which process asks, zguard knows from the kernel. Shared with readers outside.

#ifndef ZG_COLLECTOR_H
#define ZG_COLLECTOR_H

#include <stdint.h>

enum { ZG_COLLECTOR_REQUESTS = 16, ZG_DYING_REGISTERS = 32, ZG_DYING_THREADS = 256 };

// The process: free -> claimed -> asked; zguard: asked -> taken -> answered; the process, or zguard where that is gone: -> free.
enum zg_request_state {
    zg_request_free,
    zg_request_claimed,
    zg_request_asked,
    zg_request_taken,
    zg_request_answered,
};

struct zg_collector_request {
    uint32_t state; // enum zg_request_state; a futex
    uint32_t pid;   // as the process knows itself: tells when a place can be freed, and nothing else
};

struct zg_collector {
    uint32_t pid; // of the zguard that answers; 0: nobody does
    uint32_t spare;
    struct zg_collector_request requests[ZG_COLLECTOR_REQUESTS];
};

struct zg_dying_process {
    uint64_t nonce;
    uint32_t pid, tid;
    uint32_t has_few_registers, spare_2; // 1: only those of a frame are known
    // Of the thread at the place that it dies at: registers by their DWARF numbers, the address of the instruction.
    uint64_t pc, registers[ZG_DYING_REGISTERS];
    // The kernel's and the runtime's numbers of the threads that it knows.
    uint32_t thread_count, spare;
    uint32_t tids[ZG_DYING_THREADS], numbers[ZG_DYING_THREADS];
};

#endif
