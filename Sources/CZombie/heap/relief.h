// Gives memory back to the system. The calling thread is in the runtime. Slow path.

#ifndef ZG_RELIEF_H
#define ZG_RELIEF_H

#include "threads/thread.h"

// Releases free pages. With `quarantine`, also verifies and evicts all quarantined blocks and releases their pages:
// retired pages stay inaccessible, and slots that cannot be retired become free. Returns the bytes released.
uint64_t zg_relief_trim(struct zg_thread *thread, bool quarantine);

#endif
