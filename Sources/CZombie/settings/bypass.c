// Holds the bypass mode. Hot path: one byte.

#include "settings/bypass.h"

uint8_t zg_bypass_mode = zg_bypass_undecided;
bool zg_bypass_may_fail;
