// Shared memory for requests to the zguard that runs the process. A dying process asks for the stacks of its threads. A
// process that ends by itself asks for a search of its heap for leaks. A process with a finding asks for a search of
// its memory for other pointers to the freed block.
// The process claims a request on the run's page (zg_coverage.h), fills a struct zg_dying_process in its own memory,
// sends a message (zg_run_directory.h), and waits on the request's futex. The socket tells zguard which process asks
// (SO_PEERCRED). Readers outside use these layouts.

#ifndef ZG_COLLECTOR_H
#define ZG_COLLECTOR_H

#include <stdint.h>

enum { ZG_COLLECTOR_REQUESTS = 16, ZG_DYING_REGISTERS = 32, ZG_DYING_THREADS = 256 };

// The process changes the state: free -> claimed -> asked. zguard: asked -> taken -> answered. Then the process, or
// zguard if the process is gone, sets it to free.
enum zg_request_state {
    zg_request_free,
    zg_request_claimed,
    zg_request_asked,
    zg_request_taken,
    zg_request_answered,
};

struct zg_collector_request {
    uint32_t state; // enum zg_request_state; a futex
    // Process id in the process's own PID namespace. Used only to find requests of ended processes.
    uint32_t pid;
};

struct zg_collector {
    uint32_t pid;         // process id of the zguard that answers; 0: none
    uint32_t wants_leaks; // nonzero: processes ask for a search for leaks before they end
    struct zg_collector_request requests[ZG_COLLECTOR_REQUESTS];
};

// The data of a request. A process that ends by itself sets only the stack pointer among the registers.
struct zg_dying_process {
    uint64_t nonce; // in a search for pointers: equals `search` of the raw finding
    uint32_t pid, tid;
    uint32_t has_few_registers; // 1: only the registers of a published function's caller are known
    // Only for a search for pointers: how long the process waits, the start of the wait (CLOCK_MONOTONIC; 0: unknown),
    // and the freed block.
    uint32_t wait_ms;
    uint64_t since_ns, block_start, block_size;
    uint64_t signal_stack, signal_stack_bytes; // not searched, because it has copies of the registers; may be 0
    // Registers of the dying thread, indexed by their DWARF numbers, and its instruction pointer.
    uint64_t pc, registers[ZG_DYING_REGISTERS];
    // Threads that the runtime knows: their kernel ids, and their numbers in the runtime.
    uint32_t thread_count, spare;
    uint32_t tids[ZG_DYING_THREADS], numbers[ZG_DYING_THREADS];
};

#endif
