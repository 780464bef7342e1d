// The state of the process on which the isolation policy's decisions depend (struct zg_isolation_conditions).
// Any context; no lock. Counts are approximate while other threads change them.

#ifndef ZG_CONDITIONS_H
#define ZG_CONDITIONS_H

#include "pages/isolation_policy.h"

// Whether memory is narrow: the control group is nearly full (zg_pressure_is_narrow), so that not every block can have
// a page.
void zg_conditions_set_narrow(bool narrow);
bool zg_conditions_is_narrow(void);
// Whether only some blocks are isolated (not profile fence), and only some of these in windows (isolated_windows=auto).
bool zg_conditions_has_few_in_windows(void);
struct zg_isolation_conditions zg_conditions_now(void);
// Returns the result of zg_policy_private_most for this process and its options.
uint64_t zg_conditions_memory_most(bool first, enum zg_coverage_reason *reason);
// Returns the bound on the size of all pages of focused stacks' blocks: the result of zg_policy_machine_most, or 0
// while memory is short.
uint64_t zg_conditions_focus_most(enum zg_coverage_reason *reason);

#endif
