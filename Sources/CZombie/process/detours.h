// Functions of other images that tell an observer their first argument when they are called (platform/arch.h). Off unless somebody
// asks: then nothing of the program is touched. Start-up.

#ifndef ZG_DETOURS_H
#define ZG_DETOURS_H

#include "platform/arch.h"

struct zg_detour {
    uint64_t function; // 0: there is none
    uint32_t number;   // what the observer is told with its argument
    bool is_needed;    // without it the others are worth nothing
};

enum { ZG_DETOURS_MOST = 16 };

// Nobody runs in the functions, for the process has one thread; and nobody forbids writing to code.
bool zg_detours_are_possible(void);
// The functions, at most ZG_DETOURS_MOST, lie in one image; the first one is there. False where one that is needed has no
// detour; others may have one then.
bool zg_detours_install(const struct zg_detour *detours, uint64_t count, zg_arch_observer *observe);

#endif
