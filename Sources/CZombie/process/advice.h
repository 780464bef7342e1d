// Applies madvise for fork to heap memory: MADV_DONTFORK (the child lacks the pages), MADV_WIPEONFORK (the child gets
// zeros).
// Cold. One lock; it is held during the madvise system call.

#ifndef ZG_ADVICE_H
#define ZG_ADVICE_H

#include "platform/base.h"

// Returns true if `advice` sets or clears MADV_DONTFORK or MADV_WIPEONFORK, and the range begins or ends in the guarded
// heap. The caller then calls zg_advice_apply instead of madvise.
bool zg_advice_concerns(uint64_t start, uint64_t bytes, int advice);
// Calls `next`, libc's madvise, records the advice and returns the result of `next`.
int zg_advice_apply(void *start, uint64_t bytes, int advice, int (*next)(void *, uint64_t, int));

// Called in the parent before any other runtime lock is taken. Drops advice whose blocks have all been freed, so that
// children inherit that memory again.
// `alone`: the process has one thread. zg_advice_fork_prepare then takes no lock, and the parent does not call
// zg_advice_fork_done.
void zg_advice_fork_prepare(bool alone);
void zg_advice_fork_done(bool child);
// Called in the child before it uses the heap. Maps missing address space inaccessible so that nothing else is mapped
// there, and repairs blocks that share pages with memory that was not inherited.
void zg_advice_after_fork_in_child(void);

#endif
