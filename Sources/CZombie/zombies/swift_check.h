// Whether the running Swift runtime lays out objects as we expect. Proved on objects that the runtime itself makes, through
// its own functions, before the first trap header is written.
// zg_swift_layout: any context. zg_swift_check: not inside the runtime; it allocates through the program's malloc.

#ifndef ZG_SWIFT_CHECK_H
#define ZG_SWIFT_CHECK_H

#include "platform/base.h"

enum zg_swift_layout {
    zg_swift_unchecked,  // no Swift object was seen yet, or the check is still to come
    zg_swift_expected,   // as expected; where the runtime is linked statically, as far as its objects show it
    zg_swift_unexpected, // Swift support is off
};

// Where unchecked, asks for the check, which follows when the thread leaves the runtime.
enum zg_swift_layout zg_swift_layout(void);
// At start-up: checks a Swift runtime that is loaded already.
void zg_swift_check_at_start(void);
void zg_swift_check(void);

#endif
