// Converts ticks of the processor's clock (zg_arch_ticks) to nanoseconds, and returns the processor time of the
// process.
// Any context; no lock: results are approximate while threads update the rate.

#ifndef ZG_CLOCK_H
#define ZG_CLOCK_H

#include "platform/base.h"

// Start-up.
void zg_clock_init(void);

// Converts a time in ticks to nanoseconds.
uint64_t zg_clock_ns(uint64_t ticks);
// Converts nanoseconds to ticks.
uint64_t zg_clock_ticks(uint64_t ns);

// Returns the processor time in nanoseconds of the process and, until they forked, of its ancestors. A child's own
// clock begins at 0, but the child inherits the costs that the runtime compares with this time. Makes a system call.
uint64_t zg_clock_process_ns(void);
void zg_clock_before_fork(void);
void zg_clock_after_fork_in_child(void);

#endif
