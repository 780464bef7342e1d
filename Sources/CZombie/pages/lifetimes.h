// Lifetime records: predict whether blocks of an allocation context are long-lived, from earlier blocks. Windows keep
// long-lived and short-lived blocks apart, so that memory, address space and mappings become free as a whole (Barrett
// and Zorn, "Using Lifetime Predictors to Improve Memory Allocation Performance", PLDI 1993).
// Any context; no lock. Concurrent updates may be lost.

#ifndef ZG_LIFETIMES_H
#define ZG_LIFETIMES_H

#include "platform/base.h"

// Maps the table of scores. False if the kernel refuses. Called at the start.
bool zg_lifetime_init(void);
// Records that a block of the context was live when most blocks of its age had been freed.
void zg_lifetime_lasted(uint32_t context);
// Records that a block of the context was freed before most blocks of its age.
void zg_lifetime_ended(uint32_t context);
// Returns true if the context's next block is likely to be long-lived.
bool zg_lifetime_is_long(uint32_t context);

#endif
