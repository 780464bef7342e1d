// The budget of stack_overhead: stacks that no cache knows cost ten times as much as the others, and a program that makes new
// ones again and again would do little else. Of the processor time they may take a share, and START_NS before any share
// counts, so that small programs are recorded whole. Where they want more, fewer frames are recorded, in steps, until what
// they still cost is within the share.
//
// Nothing goes to and fro: every period leads at most one step on. Back leads only time that was left over, and each time that
// proves wrong, twice as much is asked for before the next try.
// Slow path; no lock: counts are approximate where threads meet.

#ifndef ZG_STACK_TIME_H
#define ZG_STACK_TIME_H

#include "platform/arch.h"
#include "platform/base.h"
#include "settings/config.h"

// How far stacks are shortened for the time that they take; 0: not at all.
extern uint64_t zg_stack_time_step;
enum { ZG_STACK_TIME_STEPS = 6 };

// How many of a new stack's innermost frames are recorded at a step other than 0.
ZG_INLINE int zg_stack_time_frames(uint64_t step) {
    static const uint8_t frames[ZG_STACK_TIME_STEPS + 1] = {0, 8, 6, 4, 3, 2, 1};
    return frames[step];
}
ZG_INLINE bool zg_stack_time_is_limited(void) { return zg_config.stack_overhead < ZG_NO_LIMIT_PERCENT; }
// Recording a stack took from `since` (zg_arch_ticks) until now, and `stacks` of them took as long each.
void zg_stack_time_spent(uint64_t since, uint64_t stacks);

#endif
