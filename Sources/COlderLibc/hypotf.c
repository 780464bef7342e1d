// Replaces hypotf, which has a new symbol version since glibc 2.35: a program linked with that version does not run
// with 2.34. Swift's Glibc module refers to hypotf even if nothing calls it.

#include "older_libc.h"

// Squares of floats are exact in double, and neither overflow nor underflow. The result is infinite if either argument
// is, even if the other is NaN (ISO C, F.10.4.3). Does not set errno.
float hypotf(float x, float y) {
    if (__builtin_isinf(x) || __builtin_isinf(y)) return __builtin_inff();
    return (float)__builtin_sqrt((double)x * x + (double)y * y);
}
