// Jumps (siglongjmp) out of a signal handler that interrupted the runtime. Signal context; takes no lock.

#ifndef ZG_JUMP_H
#define ZG_JUMP_H

#include "threads/thread.h"

// Call before a jump. If the jump leaves a handler that interrupted a call of the runtime, this function does not
// return: the call is finished first and jumps instead of returning, so that no lock stays held and no operation is
// half done. Otherwise this function restores the program's alternate stack in the kernel and returns, and the caller
// jumps. `frame` is the frame of the published function.
void zg_jump_out(zg_jump_function *function, void *environment, int value, const uint64_t *frame);

#endif
