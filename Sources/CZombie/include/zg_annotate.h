// For C programs: notes about themselves that are shown with what they die of (docs/CRASHES.md). Nothing has to be linked; where
// nothing guards the program nothing is kept.

#ifndef ZG_ANNOTATE_H
#define ZG_ANNOTATE_H

#include <stddef.h>

#include "zg_api.h"

extern const struct zg_api *zg_api(void) __attribute__((weak));

// Keeps a text under a name; NULL takes it away. Any thread, not from a signal handler. 1: it is kept.
static inline int zg_annotate(const char *key, const char *value) {
    const struct zg_api *api = zg_api ? zg_api() : NULL;
    if (!api || api->bytes < offsetof(struct zg_api, annotate) + sizeof api->annotate) return 0;
    return api->annotate(key, value);
}

#endif
