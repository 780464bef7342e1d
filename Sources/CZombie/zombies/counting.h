// What a function of the Swift runtime was about to do to the count of an object: told by following its code from the fault
// on, with the count of a living object in place of the dead one's. Needs no symbols. Cold, signal context; no lock.

#ifndef ZG_COUNTING_H
#define ZG_COUNTING_H

#include "platform/arch.h"
#include "platform/base.h"

struct zg_counting {
    const char *access;    // a word of zg_finding_kinds.h; NULL: not known
    const char *operation; // value of the detail of that name; NULL: none
};
// `side`: where the trap page of the object at `object` begins, that the instruction at registers->pc cannot read.
struct zg_counting zg_counting_find(const struct zg_registers *registers, uint64_t side, uint64_t object);

#endif
