// Whether there are windows, and for which callers.
// Slow path. zg_window_stop: any context, no lock.

#ifndef ZG_WINDOW_SWITCH_H
#define ZG_WINDOW_SWITCH_H

#include "platform/base.h"

// Reserves the address space of windows. At the start, once the heap has reserved its own.
void zg_window_reserve(void);
// Windows are on, or may be: whether the kernel can do what they need is tried when the first one is wanted.
bool zg_window_may_be(void);
// Windows are on, and small blocks of this caller (a return address) may lie in them. The first call tries what the
// kernel can do, and takes the lock of windows for that.
bool zg_window_is_for(uint64_t caller);
// Every block that can lie in a window is to lie in one (isolated_windows=all).
bool zg_window_is_forced(void);
// The windows are on: they were tried, and not stopped since.
bool zg_window_is_on(void);
// No more blocks get windows, because the program locks its memory, for instance.
void zg_window_stop(void);

#endif
