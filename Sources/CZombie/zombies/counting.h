// Finds out what a function of the Swift runtime was about to do to a freed object's reference count.
// Emulates the function's code from the faulting instruction on, with the count of a live object in place of the trap.
// Needs no symbols. Cold, signal context; no lock.

#ifndef ZG_COUNTING_H
#define ZG_COUNTING_H

#include "platform/arch.h"
#include "platform/base.h"

struct zg_counting {
    // Access name from zg_finding_kinds.h; NULL if unknown.
    const char *access;
    // Value of the finding's detail "operation"; NULL if there is none.
    const char *operation;
};
// `side`: start of the trap page of the object at `object`, which the instruction at registers->pc failed to access.
struct zg_counting zg_refcount_operation_find(const struct zg_registers *registers, uint64_t side, uint64_t object);

#endif
