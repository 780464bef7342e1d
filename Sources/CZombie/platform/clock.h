// Clocks: ticks of the processor's (zg_arch_ticks) against nanoseconds, and the processor time of the process.
// Any context; no lock: counts are approximate where threads meet.

#ifndef ZG_CLOCK_H
#define ZG_CLOCK_H

#include "platform/base.h"

// Start-up.
void zg_clock_init(void);

// A time in ticks in nanoseconds, and back.
uint64_t zg_clock_ns(uint64_t ticks);
uint64_t zg_clock_ticks(uint64_t ns);

// Processor time in nanoseconds, of the process and of those that it was forked from until then: what was spent goes on
// counting in the child, whose own clock begins at 0, and so does what it was spent of. A system call.
uint64_t zg_clock_process_ns(void);
void zg_clock_before_fork(void);
void zg_clock_after_fork_in_child(void);

#endif
