// Asks zguard, which runs the program, for the stacks of all threads before the program dies, and for searches of its
// memory. Signal context; no lock.

#ifndef ZG_COLLECTOR_ASK_H
#define ZG_COLLECTOR_ASK_H

#include "platform/arch.h"

enum zg_collected {
    zg_collected_threads,   // zguard has taken the stacks
    zg_collected_no_zguard, // there is no zguard to ask
    zg_collected_no_answer, // zguard did not answer in time
};

// `registers`: registers of the calling thread where it dies. Takes at most ten seconds.
enum zg_collected zg_collector_ask(const struct zg_registers *registers);

// Asks the zguard that runs the process for a search of the heap for leaks, if zguard wants one, and waits for the end
// of the search: a minute at most, and only while zguard lives. Call when the process ends by itself, without a lock.
void zg_collector_search_leaks(void);

// If zguard runs the process: from now on, findings about freed blocks ask for a search for other pointers to the block
// (zg_found_search). Only the first findings do so. Each waits at most `scan_ms`, and only while zguard lives.
void zg_collector_start(void);
void zg_collector_after_fork_in_child(void);
// Registers of the caller of the published function with this frame. Only pc, sp and the frame pointer are known.
void zg_collector_caller_registers(struct zg_registers *registers, const uint64_t *frame);

#endif
