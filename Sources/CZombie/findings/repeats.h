// Counts findings that occur again: each is written once, its repeats are written in batches and at the end. Under the
// report lock unless stated otherwise. If the report writer faults, the handler calls these functions with the lock
// held.

#ifndef ZG_REPEATS_H
#define ZG_REPEATS_H

#include "findings/finding.h"

// Returns true for the first of equal findings; counts later ones. Findings are equal if kind, the block's stacks and
// the access stack are equal.
bool zg_repeats_is_first(const struct zg_finding *finding);
// Returns whether a line about repeats is due: a finding has at least 1000 unwritten repeats, and its unwritten repeats
// are no fewer than the written ones. Any thread, no lock.
bool zg_repeats_have_due(void);
// Returns whether any repeats are unwritten. Any thread, no lock.
bool zg_repeats_have_unwritten(void);
// Returns the next finding about whose repeats a line is due; with `all`, the next one that has unwritten repeats. The
// search starts at `*cursor`, which is 0 at first. Sets `repeats` of the finding to the number of unwritten repeats,
// and counts them as written. NULL at the end.
const struct zg_finding *zg_repeats_take(uint32_t *cursor, bool all);
// In the child of a fork: drops unwritten repeats, which the parent writes.
void zg_repeats_drop(void);

#endif
