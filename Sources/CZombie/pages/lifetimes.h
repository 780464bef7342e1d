// The lifetimes of blocks of an allocation context, as far as earlier blocks show them: long-lived blocks are kept
// apart from short-lived ones, so that memory, address space and mappings become free as a whole (Barrett and Zorn,
// "Using Lifetime Predictors to Improve Memory Allocation Performance", PLDI 1993).
// Any context; no lock: counts are approximate where threads meet.

#ifndef ZG_LIFETIMES_H
#define ZG_LIFETIMES_H

#include "platform/base.h"

// Maps the table of contexts. False where the kernel refuses it; at the start.
bool zg_lifetime_init(void);
// A block of the context was still live when most blocks of its age were freed.
void zg_lifetime_lasted(uint32_t context);
// A block of the context was freed before that.
void zg_lifetime_ended(uint32_t context);
// The context's next block is likely to last.
bool zg_lifetime_is_long(uint32_t context);

#endif
