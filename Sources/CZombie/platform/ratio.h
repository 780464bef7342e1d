// Quotients as fixed-point numbers. The runtime uses no floating-point arithmetic: it would set flags of the program
// (FE_INEXACT), or end a program that traps them (Tests/House/arithmetic.py). No state; any context.

#ifndef ZG_RATIO_H
#define ZG_RATIO_H

#include "platform/base.h"

#define ZG_RATIO_ONE (UINT64_C(1) << 32)

// Returns value * by / over, rounded down, or the largest number if the quotient is too large. `over` is not 0. A few
// hundred cycles at most.
ZG_INLINE uint64_t zg_scaled(uint64_t value, uint64_t by, uint64_t over) {
    unsigned __int128 scaled = (unsigned __int128)value * by / over;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

// Returns value * by / over without a division. `ratio` is zg_scaled(by, ZG_RATIO_ONE, over).
ZG_INLINE uint64_t zg_by_ratio(uint64_t value, uint64_t ratio) {
    unsigned __int128 scaled = (unsigned __int128)value * ratio >> 32;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

#endif
