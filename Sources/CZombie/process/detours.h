// Installs detours. A detour is a trampoline in front of a function of another image; it passes the function's first
// argument to an observer (platform/arch.h). Only for features that are off by default; without them no code is
// patched. Start-up.

#ifndef ZG_DETOURS_H
#define ZG_DETOURS_H

#include "platform/arch.h"

struct zg_detour {
    uint64_t function; // 0: the function does not exist
    uint32_t number;   // passed to the observer with the argument
    bool is_needed;    // installation fails if this function cannot be detoured
};

enum { ZG_MAX_DETOURS = 16 };

// Returns whether code can be patched: the process has one thread, so no other thread executes the functions, and there
// is no seccomp filter that could forbid the patch.
bool zg_detours_are_possible(void);
// Installs at most ZG_MAX_DETOURS detours. All functions lie in one image; the first one exists. Returns false if a
// needed function could not be detoured; other functions may have been detoured by then.
bool zg_detours_install(const struct zg_detour *detours, uint64_t count, zg_arch_observer *observe);

#endif
