// Initializes the guarded heap at the first call and reports whether it can be used.

#ifndef ZG_READY_H
#define ZG_READY_H

#include "platform/base.h"

// Returns whether the heap can be entered. The first call initializes it. Returns false for good if initialization
// fails (no address space or memory for a heap, pages other than 4 KiB) or if the process is exempt.
bool zg_ready(void);
// Returns whether initialization has failed for good.
bool zg_ready_is_hopeless(void);

#endif
