// Executes vector instructions that fault because an isolated block is less aligned than malloc's blocks, so that its
// end is the end of a page (pages/exact_ends.h).

#ifndef ZG_FAULT_UNALIGNED_H
#define ZG_FAULT_UNALIGNED_H

#include <signal.h>

#include "platform/base.h"

// Returns true if the instruction was executed, so that the program can continue. If the operand reaches beyond the
// block's pages, returns false, and turns info and context into those of a page fault there (not for a masked
// instruction). Signal context; the caller holds the fault lock.
bool zg_unaligned_continue(siginfo_t *info, void *ucontext);

#endif
