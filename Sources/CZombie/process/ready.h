// Whether there is a heap. The first call makes it ready.

#ifndef ZG_READY_H
#define ZG_READY_H

#include "platform/base.h"

// The heap can be entered. The first call initialises it; false for ever where the address space does not allow a heap.
bool zg_ready(void);
// It does not.
bool zg_ready_is_hopeless(void);

#endif
