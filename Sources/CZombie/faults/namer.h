// Lets a thread of the process (in a test bundle) report a fatal finding with symbol names. Symbolization may allocate
// and take locks, which a signal handler must not. The dying thread requests the report and waits for a limited time.

#ifndef ZG_NAMER_H
#define ZG_NAMER_H

#include "platform/base.h"

// Whether a naming thread other than the calling thread waits in this process.
bool zg_namer_is_waiting(void);
// Requests a report of the last written finding. True if it was reported. Signal context; takes up to ten seconds.
bool zg_namer_request(void);

// For the naming thread. zg_namer_await returns when the process is about to die of a finding; zg_namer_done tells the
// dying thread that the finding was reported.
void zg_namer_await(void);
void zg_namer_done(void);

#endif
