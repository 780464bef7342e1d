// Finds out what the faulting code was about to do with a freed object: to its reference count (a function of the Swift
// runtime), or with its class pointer.
// Emulates the code from the faulting instruction on, with the count of a live object in place of the trap.
// Needs no symbols. Cold, signal context; no lock.

#ifndef ZG_COUNTING_H
#define ZG_COUNTING_H

#include "platform/arch.h"
#include "platform/base.h"
#include "zombies/zombie.h"

struct zg_counting {
    // Access name from zg_finding_kinds.h; NULL if unknown.
    const char *access;
    // Value of the finding's detail "operation"; NULL if there is none.
    const char *operation;
};
// `side`: start of the inaccessible trap page to which the reference count of the freed object at `object` points. The
// instruction at registers->pc faulted on that page.
struct zg_counting zg_refcount_operation_find(const struct zg_registers *registers, uint64_t side, uint64_t object);

// The first use of an object's class pointer or reference count after the instruction that loads one of them.
struct zg_header_use {
    enum zg_trap_part part;      // zg_trap_isa, zg_trap_side, or zg_trap_none: no use was found
    int64_t offset;              // distance from the trap pointer, a multiple of 8
    struct zg_counting counting; // for zg_trap_side
};
// Finds this use. The instruction at registers->pc failed to load a header word of the object at `object`, because the
// object's page is protected. The emulated code loads the words of `pattern`, as from a zombie on an accessible page.
struct zg_header_use zg_header_use_find(const struct zg_registers *registers, uint64_t object,
                                        const struct zg_zombie_pattern *pattern);

#endif
