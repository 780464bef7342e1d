// Limits the processor time for new stacks (option stack_overhead). A stack that is in no cache costs ten times as much
// as a cached one, and a program that makes new stacks all the time would do little else. New stacks may take a share
// of the processor time, and START_NS in addition, so that small programs are recorded whole. If they take more, fewer
// frames are recorded, in steps, until the cost is within the share.
//
// The steps do not oscillate: each period moves by at most one step. A step back (to more frames) requires unspent
// time, and twice as much after each step back that failed. Slow path; no lock: counts are approximate if threads race.

#ifndef ZG_STACK_TIME_H
#define ZG_STACK_TIME_H

#include "platform/arch.h"
#include "platform/base.h"
#include "settings/config.h"

// Current step of reduced precision: higher steps record fewer frames of new stacks. 0: whole stacks.
extern uint64_t zg_stack_time_step;
enum { ZG_STACK_TIME_STEPS = 6 };

// Returns how many innermost frames of a new stack are recorded at this step, which is not 0.
ZG_INLINE int zg_stack_time_frames(uint64_t step) {
    static const uint8_t frames[ZG_STACK_TIME_STEPS + 1] = {0, 8, 6, 4, 3, 2, 1};
    return frames[step];
}
ZG_INLINE bool zg_stack_time_is_limited(void) { return zg_config.stack_overhead < ZG_NO_LIMIT_PERCENT; }
// Charges the time from `since` (zg_arch_ticks) until now for each of `stacks` recorded stacks, of which one was timed.
void zg_stack_time_spent(uint64_t since, uint64_t stacks);

#endif
