// What a process dies of can be said with names only by code that may allocate and take locks, never in a handler: a thread of the
// process itself (a test bundle's) waits for that. The dying thread asks it, and waits as long as that may take within reason.

#ifndef ZG_LAST_WORDS_H
#define ZG_LAST_WORDS_H

#include "platform/base.h"

// Somebody waits, in this process, who is not the calling thread.
bool zg_last_words_are_heard(void);
// Asks for it, for the finding that was written last. True: it was said. Signal context; takes up to ten seconds.
bool zg_last_words_ask(void);

// The thread's side: returns when the process is about to die of a finding. / It was said.
void zg_last_words_await(void);
void zg_last_words_said(void);

#endif
