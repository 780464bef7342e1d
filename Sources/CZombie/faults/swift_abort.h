// Turns fatal errors that the Swift runtime detects itself into findings: uses of freed objects ("Attempted to read an
// unowned reference but object 0x… was already destroyed"), and overlapping accesses. When the runtime calls abort, the
// message is on the heap and a pointer to it on the stack. Texts about two overlapping accesses are on the stack.
// Signal context; no lock.

#ifndef ZG_SWIFT_ABORT_H
#define ZG_SWIFT_ABORT_H

#include "findings/finding.h"

// Makes the finding for an abort, without its access stack. `sp`: the stack pointer. False if the abort has another
// cause.
bool zg_swift_abort_find(uint64_t sp, struct zg_finding *finding);

#endif
