// Finds the function table (zg_api.h) of the runtime that guards this process. Cold.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "include/zg_api.h"

extern const struct zg_api *zg_api(void) __attribute__((weak));

const struct zg_api *zg_api_find(void) {
    // A linked runtime takes precedence over a preloaded one, as its malloc does. An executable need not export the
    // symbol, so dlsym may not find it.
    if (zg_api) return zg_api();
    const struct zg_api *(*published)(void) = (const struct zg_api *(*)(void))dlsym(RTLD_DEFAULT, "zg_api");
    return published ? published() : NULL;
}
