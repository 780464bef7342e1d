// Retires all freed slots of a size class (retire.h): makes whole runs, and single pages of incomplete runs,
// inaccessible, and releases their memory.
// Slow path; under the lock of retired runs.

#ifndef ZG_RETIRE_CLASS_H
#define ZG_RETIRE_CLASS_H

#include "platform/base.h"

// Retires all freed slots of the class; frees those that cannot be retired. Returns the number of bytes released.
uint64_t zg_retire_class(uint32_t class);

#endif
