// Jumps (siglongjmp) out of a signal handler that has interrupted the runtime. Signal context; takes no lock.

#ifndef ZG_JUMP_H
#define ZG_JUMP_H

#include "threads/thread.h"

// Does not return where the handler that this is called from has interrupted a call of the runtime and is left by the jump: the
// call is brought to its end first, and the jump is made in place of its return, so that no lock stays taken and nothing half done. Else
// returns, and the jump is to be made: the kernel has the program's alternate stack again then. `frame` is the frame of the published
// function.
void zg_jump_out(zg_jump_function *function, void *environment, int value, const uint64_t *frame);

#endif
