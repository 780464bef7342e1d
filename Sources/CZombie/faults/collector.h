// Asking zguard, which runs the program, for the stacks of all threads before the program dies. Signal context; no lock.

#ifndef ZG_COLLECTOR_ASK_H
#define ZG_COLLECTOR_ASK_H

#include "platform/arch.h"

enum zg_collected {
    zg_collected_threads, // zguard has looked at them
    zg_collected_nobody,  // nobody is there to ask
    zg_collected_silence, // no answer came
};

// `registers`: of the calling thread at the place that it dies at. Takes ten seconds at the most.
enum zg_collected zg_collector_ask(const struct zg_registers *registers);

#endif
