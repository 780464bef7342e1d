// What a process dies of can be said with names only by code that may allocate and take locks, never in a handler: a thread of the
// process itself (a test bundle's) waits for that. The dying thread asks it, and waits as long as that may take within reason.

#ifndef ZG_NAMER_H
#define ZG_NAMER_H

#include "platform/base.h"

// Somebody waits, in this process, who is not the calling thread.
bool zg_namer_is_waiting(void);
// Asks for it, for the finding that was written last. True: it was said. Signal context; takes up to ten seconds.
bool zg_namer_request(void);

// The thread's side: returns when the process is about to die of a finding. / It was said.
void zg_namer_await(void);
void zg_namer_done(void);

#endif
