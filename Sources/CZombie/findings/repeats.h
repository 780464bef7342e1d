// Findings that are met again: written once, and counted. What was counted is written when it has become much, and at the end.
// Under the report lock where nothing else is said; a fault inside the report's writer comes here as its owner.

#ifndef ZG_REPEATS_H
#define ZG_REPEATS_H

#include "findings/finding.h"

// Equal findings are of one kind, of blocks with the same stacks, by the same stack. False: one was met before, and is counted.
bool zg_repeats_is_first(const struct zg_finding *finding);
// So many are waiting that a line for them is due: as many as were written, and no fewer than a thousand. Any thread, no lock.
bool zg_repeats_are_due(void);
// Some are waiting. Any thread, no lock.
bool zg_repeats_are_waiting(void);
// The next finding that has repeats (`all`) or so many that they are due, from `*cursor` on, which is 0 at first: its `repeats` is
// how many, and they are no longer waiting. NULL: there is none.
const struct zg_finding *zg_repeats_take(uint32_t *cursor, bool all);
// The child of a fork: what is waiting is the parent's to write.
void zg_repeats_forget(void);

#endif
