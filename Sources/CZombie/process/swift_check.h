// Whether the running Swift runtime lays out objects as we expect. Proved on objects that the runtime itself makes, through
// its own functions, before the first trap header is written.
// Not inside the runtime: it allocates through the program's malloc. No lock.

#ifndef ZG_SWIFT_CHECK_H
#define ZG_SWIFT_CHECK_H

#include "platform/base.h"

// At start-up: checks a Swift runtime that is loaded already, or is part of the program, which may end by an error of the Swift runtime
// before its first object has gone.
void zg_swift_check_at_start(void);
// When the first Swift object has gone, at the latest.
void zg_swift_check(void);
// Called then, where it is set: the Swift runtime is there.
extern void (*zg_swift_check_seen)(void);

#endif
