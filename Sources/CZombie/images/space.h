// This process's own address space, as a struct zg_space (include/zg_space.h). Cold, any context.

#ifndef ZG_OWN_SPACE_H
#define ZG_OWN_SPACE_H

#include "include/zg_space.h"

// Reads memory with system calls that return an error instead of faulting.
extern const struct zg_space zg_space_own;

#endif
