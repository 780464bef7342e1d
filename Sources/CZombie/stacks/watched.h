// What earlier runs watched (zguard run --coverage): the run's directory holds a file of allocation stacks, so that
// this run spends its time on others. Cold: each context is looked up once.

#ifndef ZG_WATCHED_H
#define ZG_WATCHED_H

#include "platform/base.h"

// Whether there is such a file.
extern bool zg_watched_is_on;
// Reads the file. Call at the start, when the options are known. Nothing happens if it cannot be read.
void zg_watched_init(void);

enum zg_watched {
    zg_watched_unknown, // no earlier run saw the stack, or none watched any of its pairs
    zg_watched_partly,  // some of its pairs were watched: the stack's first blocks do not belong to the others
    zg_watched_all      // all of its pairs that were seen were watched
};
// Looks an allocation stack up.
enum zg_watched zg_watched_of(uint32_t stack);

#endif
