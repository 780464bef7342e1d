// Lets a thread of the process (in a test bundle) report a finding with symbol names. Symbolization may allocate and
// take locks, which a signal handler must not. The thread that has the finding requests the report and waits for a
// limited time.

#ifndef ZG_NAMER_H
#define ZG_NAMER_H

#include "platform/base.h"

// Whether a naming thread other than the calling thread waits in this process.
bool zg_namer_is_waiting(void);
// Requests a report of the last written finding: its first line, or all of it if the process is about to end. True if
// it was reported. Signal context; takes up to two seconds, at the end up to ten.
bool zg_namer_request(bool is_end);

// For the naming thread. zg_namer_await returns at a request, true if the process is about to end; zg_namer_done tells
// the requesting thread that the finding was reported.
bool zg_namer_await(void);
void zg_namer_done(void);

#endif
