// Finds out what the program would have done with a freed object after the retain that faulted: unoptimized Swift code
// retains an object before it calls the method or reads the property that the report should name. Signal context; no
// lock.

#ifndef ZG_LOOKAHEAD_H
#define ZG_LOOKAHEAD_H

#include "findings/finding.h"
#include "platform/arch.h"
#include "zombies/zombie.h"

// Sets `next` and `next_count` of the finding if the lookahead emulator finds uses. `registers`: the state at the
// fault, in the function that retains.
void zg_lookahead_find_uses(struct zg_finding *finding, const struct zg_zombie_hit *hit,
                            const struct zg_registers *registers);
// Does the same after a fault of the instruction at registers->pc, which loads the object's class pointer. Call if no
// use of that pointer was found; a later retain of the object may have been found.
void zg_lookahead_find_uses_of_load(struct zg_finding *finding, const struct zg_block_view *block,
                                    const struct zg_registers *registers);

#endif
