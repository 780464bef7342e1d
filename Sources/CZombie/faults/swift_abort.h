// The Swift runtime's own fatal errors about dead objects: "Attempted to read an unowned reference but object 0x… was
// already destroyed"; and about accesses that overlap. The message lies on the heap when the runtime calls abort, and a pointer to it
// on the stack; where two accesses met, what is said about each lies on the stack.
// Signal context; no lock.

#ifndef ZG_SWIFT_ABORT_H
#define ZG_SWIFT_ABORT_H

#include "findings/finding.h"

// Makes the finding that an abort stands for, without its access stack. False where it has nothing to do with dead objects.
bool zg_swift_abort_find(uint64_t sp, struct zg_finding *finding);

#endif
