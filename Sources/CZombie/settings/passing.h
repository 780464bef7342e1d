// Whether blocks are passed on to the program's own allocator, and by what they are chosen. Set at start-up; read by the
// hot path before anything else.

#ifndef ZG_PASSING_H
#define ZG_PASSING_H

#include "platform/base.h"

enum zg_passing {
    zg_passing_none,
    zg_passing_sample,
    zg_passing_budget,
    zg_passing_all,       // functions in front of ours take the blocks of ours and may know libc's only
    zg_passing_undecided, // before the first block
};
extern uint8_t zg_passing;
// Memory is limited (limits/allowance.h): what is passed on counts together with what is not, and where the program has limited its address
// space to less than was reserved before, libc gets nothing any more, and what is passed on to it in vain is served here.
extern bool zg_passing_may_fail;

#endif
