// Installs detours: trampolines in front of functions of other images, which pass an observer the function's first
// argument (platform/arch.h). Only for features that are off by default; without them no code is patched. Start-up.

#ifndef ZG_DETOURS_H
#define ZG_DETOURS_H

#include "platform/arch.h"

struct zg_detour {
    uint64_t function; // 0: the function does not exist
    uint32_t number;   // passed to the observer with the argument
    bool is_needed;    // installation fails if this function cannot be detoured
};

enum { ZG_MAX_DETOURS = 16 };

// Returns whether code can be patched: the process has one thread, so no other thread executes the functions, and no
// seccomp filter may forbid it.
bool zg_detours_are_possible(void);
// Installs at most ZG_MAX_DETOURS detours. All functions lie in one image; the first one exists. Returns false if a
// needed function could not be detoured; other functions may have been detoured by then.
bool zg_detours_install(const struct zg_detour *detours, uint64_t count, zg_arch_observer *observe);

#endif
