// Counts findings that occur again: each is written once, its repeats are written in batches and at the end.
// Under the report lock unless stated otherwise. A fault inside the report writer comes here as the lock's owner.

#ifndef ZG_REPEATS_H
#define ZG_REPEATS_H

#include "findings/finding.h"

// Returns true for the first of equal findings; counts later ones. Findings are equal if kind, the block's stacks and
// the access stack are equal.
bool zg_repeats_is_first(const struct zg_finding *finding);
// Returns whether a line about repeats is due: a finding has at least 1000 unwritten repeats, and at least as many as
// were written. Any thread, no lock.
bool zg_repeats_have_due(void);
// Returns whether any repeats are unwritten. Any thread, no lock.
bool zg_repeats_have_unwritten(void);
// Returns the next finding with unwritten repeats (`all`), or with enough of them to be due, from `*cursor` on, which
// starts at 0. `repeats` is set to their number, and they count as written. NULL at the end.
const struct zg_finding *zg_repeats_take(uint32_t *cursor, bool all);
// In the child of a fork: drops unwritten repeats, which the parent writes.
void zg_repeats_drop(void);

#endif
