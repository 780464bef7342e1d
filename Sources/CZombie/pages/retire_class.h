// Retiring all dead slots of a class at once: whole runs, and single pages of incomplete ones.
// Slow path; under the lock of retired runs.

#ifndef ZG_RETIRE_CLASS_H
#define ZG_RETIRE_CLASS_H

#include "platform/base.h"

// Slots that cannot be retired become free. Returns the bytes given back.
uint64_t zg_retire_class(uint32_t class);

#endif
