// How long blocks of an allocation context live, as far as is known from those before: blocks that last are kept apart from those that
// die soon, so that memory, address space and mappings become free as a whole (Barrett and Zorn, "Using Lifetime Predictors to
// Improve Memory Allocation Performance", PLDI 1993). Any context; no lock: counts are approximate where threads meet.

#ifndef ZG_LIFETIMES_H
#define ZG_LIFETIMES_H

#include "platform/base.h"

// Maps the table of contexts. False where it is refused; at the start.
bool zg_lifetime_init(void);
// A block of the context was in use when most of its age were dead; or it was dead by then.
void zg_lifetime_lasted(uint32_t context);
void zg_lifetime_ended(uint32_t context);
// The next one is likely to last.
bool zg_lifetime_is_long(uint32_t context);

#endif
