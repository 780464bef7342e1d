// Whether blocks are passed on to the program's own allocator, and by what they are chosen. Set at start-up; read by the
// hot path before anything else.

#ifndef ZG_BYPASS_H
#define ZG_BYPASS_H

#include "platform/base.h"

enum zg_bypass_mode {
    zg_bypass_none,
    zg_bypass_sample,
    zg_bypass_budget,
    zg_bypass_all,       // functions in front of ours take the blocks of ours and may know libc's only
    zg_bypass_undecided, // before the first block
};
extern uint8_t zg_bypass_mode;
// Memory is limited (limits/allowance.h): what is passed on counts together with what is not, and where the program has limited its address
// space to less than was reserved before, libc gets nothing any more, and what is passed on to it in vain is served here.
extern bool zg_bypass_may_fail;

#endif
