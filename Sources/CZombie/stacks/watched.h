// Allocation stacks that earlier runs watched (zguard run --coverage), from a file in the run's directory. This run
// spends its isolated blocks on other stacks. Cold: each context is looked up once.

#ifndef ZG_WATCHED_H
#define ZG_WATCHED_H

#include "platform/base.h"

// Whether the file has at least one stack.
extern bool zg_watched_is_on;
// Reads the file. Call at the start, when the options are known. Without a readable file, zg_watched_is_on stays false.
void zg_watched_init(void);

enum zg_watched {
    zg_watched_unknown, // no earlier run has watched a pair of the stack
    zg_watched_partly,  // earlier runs have watched some pairs of the stack, and seen others
    zg_watched_all      // earlier runs have watched every pair of the stack that they have seen
};
// Looks an allocation stack up.
enum zg_watched zg_watched_of(uint32_t stack);

#endif
