// The pair log: a file in the run's directory to which the process appends its pairs of allocation and free stack, for
// `zguard run --coverage`. Each line is written when the pair first occurs, so a killed process loses nothing.
// Cold: some system calls for each new pair.

#ifndef ZG_PAIR_LOG_H
#define ZG_PAIR_LOG_H

#include "platform/base.h"

// Whether pairs are logged (option log_pairs, and the process belongs to a run).
extern bool zg_pair_log_is_on;
// Call at the start, when the options are known. False if the kernel refuses memory.
bool zg_pair_log_init(void);

enum zg_pair_event { zg_pair_seen = 'P', zg_pair_watched = 'W' };
// Appends the pair. Before it, appends the stacks and modules of the pair that the file does not contain yet.
void zg_pair_log_add(enum zg_pair_event event, uint32_t alloc_stack, uint32_t free_stack);

void zg_pair_log_lock(void);
void zg_pair_log_unlock(bool reset);

#endif
