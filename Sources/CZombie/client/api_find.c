// The table of functions of whichever runtime guards this process (zg_api.h). Cold.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "include/zg_api.h"

extern const struct zg_api *zg_api(void) __attribute__((weak));

const struct zg_api *zg_api_find(void) {
    // A runtime that is linked in comes before one that is preloaded: its malloc does, too. An executable need not export it.
    if (zg_api) return zg_api();
    const struct zg_api *(*published)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    return published ? published() : NULL;
}
