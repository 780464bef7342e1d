// Where errors were thrown (collect=crashes), by their address: C++'s exceptions and Swift's errors cross threads. A small table; the
// newest are kept. Any context; no lock.

#ifndef ZG_THROWN_H
#define ZG_THROWN_H

#include "platform/base.h"

// An error is thrown; `stack` is its id in the depot. One that is thrown again keeps the place where it was thrown first, as far as
// its block tells that it is the same.
void zg_thrown_note(uint64_t error, uint32_t stack);
// The stack's id; 0 where it is not known, or another error has the address by now.
uint32_t zg_thrown_find(uint64_t error);

#endif
