// The process as the isolation policy sees it (struct zg_isolation_conditions).
// Any context; no lock: counts are approximate where threads meet.

#ifndef ZG_CONDITIONS_H
#define ZG_CONDITIONS_H

#include "pages/isolation_policy.h"

// The control group is nearly full (zg_pressure_is_narrow): it has too little memory left for a page for each block.
void zg_conditions_set_narrow(bool narrow);
bool zg_conditions_is_narrow(void);
// Windows are one way among others: some blocks are isolated, and some of those lie in windows.
bool zg_conditions_has_few_in_windows(void);
struct zg_isolation_conditions zg_conditions_now(void);
// zg_policy_private_most, of this process and its options.
uint64_t zg_conditions_memory_most(bool first, enum zg_coverage_reason *reason);

#endif
