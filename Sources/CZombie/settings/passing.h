// Whether blocks are passed on to the program's own allocator, and by what they are chosen. Set once at start-up; read by the
// hot path before anything else.

#ifndef ZG_PASSING_H
#define ZG_PASSING_H

#include "platform/base.h"

enum zg_passing { zg_passing_none, zg_passing_sample, zg_passing_budget };
extern uint8_t zg_passing;

#endif
