// Checks that the running Swift runtime lays out objects as expected. The check uses objects that the Swift runtime
// itself creates, and runs before the first trap word is written.
// Call outside the runtime: the check allocates through the program's malloc. No lock.

#ifndef ZG_SWIFT_CHECK_H
#define ZG_SWIFT_CHECK_H

#include "platform/base.h"

// Call at start-up: checks a Swift runtime that is already loaded or statically linked, because the program may die of
// a Swift runtime error before its first object is freed.
void zg_swift_check_at_start(void);
// Call at the latest when the first Swift object is freed. Later calls do nothing.
void zg_swift_check(void);
// If not NULL, zg_swift_check calls this function once. The program has a Swift runtime by then.
extern void (*zg_swift_check_seen)(void);

#endif
