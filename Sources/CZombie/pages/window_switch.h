// Decides whether there are windows, and for which callers.
// Slow path. zg_window_stop: any context, no lock.

#ifndef ZG_WINDOW_SWITCH_H
#define ZG_WINDOW_SWITCH_H

#include "platform/base.h"

// Reserves the address space of windows. Call at the start, after the heap has reserved its address space.
void zg_window_reserve(void);
// Returns true if windows are on or may be turned on. The kernel is probed when the first window is needed.
bool zg_window_may_be(void);
// Returns true if windows are on and small blocks of this caller (a return address) may lie in them. The first call
// probes the kernel and takes the lock of windows.
bool zg_window_is_for(uint64_t caller);
// Returns true if this caller of malloc is a function of libc that copies a string for the program. Any context.
bool zg_window_is_copying_caller(uint64_t caller);
// Returns true if every block that can lie in a window must lie in one (isolated_windows=all).
bool zg_window_is_forced(void);
// Returns true if windows are on: the kernel was probed, and windows were not stopped since.
bool zg_window_is_on(void);
// Stops windows: no more blocks get one (for example, because the program locks its memory).
void zg_window_stop(void);

#endif
