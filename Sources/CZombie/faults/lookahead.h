// What the program would have done next with an object that it retained too late: unoptimised Swift code retains first,
// and only then calls the method or reads the property that a reader wants to hear about. Signal context; no lock.

#ifndef ZG_LOOKAHEAD_H
#define ZG_LOOKAHEAD_H

#include "findings/finding.h"
#include "platform/arch.h"
#include "zombies/zombie.h"

// `registers` are those of the fault, in the function that counts references. Sets `next` of the finding, where it can
// be told.
void zg_lookahead_find_uses(struct zg_finding *finding, const struct zg_zombie_hit *hit,
                            const struct zg_registers *registers);

#endif
