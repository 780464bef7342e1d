// What is passed on. Hot path: one byte.

#include "settings/passing.h"

uint8_t zg_passing = zg_passing_undecided;
bool zg_passing_may_fail;
