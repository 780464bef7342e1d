// hypotf got another version in glibc 2.35 (it sets errno no more); what is linked with it there does not run with 2.34. Swift's module
// Glibc refers to it, whoever calls it.

#include "older_libc.h"

// Squares of floats are exact as doubles, and neither overflow nor vanish. Infinite with either side infinite, whatever the other is
// (ISO C, F.10.4.3).
float hypotf(float x, float y) {
    if (__builtin_isinf(x) || __builtin_isinf(y)) return __builtin_inff();
    return (float)__builtin_sqrt((double)x * x + (double)y * y);
}
