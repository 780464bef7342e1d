// madvise with which a program keeps parts of blocks from its children (MADV_DONTFORK), or gives them to these as zeros
// (MADV_WIPEONFORK). Cold; the list's lock is held for a system call.

#ifndef ZG_ADVICE_H
#define ZG_ADVICE_H

#include "platform/base.h"

// Whether the advice is of that kind, or takes it back, and concerns memory of ours: then zg_advice_follow makes the call.
bool zg_advice_concerns(uint64_t start, uint64_t bytes, int advice);
// `next` is libc's madvise; its result.
int zg_advice_follow(void *start, uint64_t bytes, int advice, int (*next)(void *, uint64_t, int));

// Parent, before other locks are taken: memory whose blocks have died since is inherited again. `alone`: there is no other thread,
// no lock is taken, and the parent is done.
void zg_advice_fork_prepare(bool alone);
void zg_advice_fork_done(bool child);
// Child, before the heap is used: address space that is missing is closed, so that nothing else is mapped there, and blocks that
// share pages with what was not inherited are made good.
void zg_advice_after_fork_in_child(void);

#endif
