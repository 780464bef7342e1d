// Bypass mode: which allocations go unguarded to the program's own allocator.
// Set at start-up; the hot path reads it before anything else.

#ifndef ZG_BYPASS_H
#define ZG_BYPASS_H

#include "platform/base.h"

enum zg_bypass_mode {
    zg_bypass_none,
    zg_bypass_sample, // sample_rate chooses the blocks that are guarded
    zg_bypass_budget, // the option overhead limits how many are guarded
    // All blocks: the process is exempt, or another allocator's functions, loaded in front of the runtime, would
    // receive the runtime's blocks and may handle only libc's.
    zg_bypass_all,
    zg_bypass_undecided, // before the first block
};
extern uint8_t zg_bypass_mode;
// True if RLIMIT_AS or RLIMIT_DATA limits memory (limits/allowance.h). Guarded and bypassed blocks then count against
// one allowance. If RLIMIT_AS is below the address space already reserved, libc gets no more memory, and the guarded
// heap serves allocations that libc refuses.
extern bool zg_bypass_may_fail;

#endif
