// What a dying process and the zguard that runs it say to each other: a few words on the page of the run (zg_coverage.h), and a
// record in the process's own memory, which zguard reads. Shared with readers outside.

#ifndef ZG_COLLECTOR_H
#define ZG_COLLECTOR_H

#include <stdint.h>

// A byte in this FIFO, beside the raw findings, tells zguard to look at the page now.
#define ZG_COLLECTOR_SUFFIX ".collector"

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
    uint32_t pid;   // as the process knows itself: zguard may know it by another number, and looks at `nonce`
    uint64_t place; // of its struct zg_dying_process
    uint64_t nonce; // what stands there, too
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
