// This process's own address space, for what can read from any (include/zg_space.h). Cold, any context.

#ifndef ZG_OWN_SPACE_H
#define ZG_OWN_SPACE_H

#include "include/zg_space.h"

// Reads with system calls that cannot fault.
extern const struct zg_space zg_space_own;

#endif
