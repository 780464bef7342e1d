// Memory is given back, by a thread that is entered. Slow path.

#ifndef ZG_RELIEF_H
#define ZG_RELIEF_H

#include "threads/thread.h"

// Free pages go back to the system; with `quarantine` the dead blocks' too: they are verified, their addresses stay dead, what
// cannot be retired is free for reuse afterwards, and nothing is left in the quarantine. Returns the bytes given back.
uint64_t zg_relief_trim(struct zg_thread *thread, bool quarantine);

#endif
