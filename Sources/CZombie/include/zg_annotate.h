// For C programs: notes about the program's state, which are shown in reports of its crashes (docs/CRASHES.md).
// Needs no library: without a runtime in the process, the call does nothing.

#ifndef ZG_ANNOTATE_H
#define ZG_ANNOTATE_H

#include <stddef.h>

#include "zg_api.h"

extern const struct zg_api *zg_api(void) __attribute__((weak));

// Stores `value` under the name `key`; a NULL value removes the name. Both strings are copied: keys are truncated to 31
// bytes, values to 223. At most 32 names are stored.
// Returns 1 if done; 0 if no runtime is in the process, if there is no room for another name, or if the table stays
// locked for 100 ms (in the child of a fork). Any thread, but not from a signal handler.
static inline int zg_annotate(const char *key, const char *value) {
    const struct zg_api *api = zg_api ? zg_api() : NULL;
    if (!api || api->bytes < offsetof(struct zg_api, annotate) + sizeof api->annotate) return 0;
    return api->annotate(key, value);
}

#endif
