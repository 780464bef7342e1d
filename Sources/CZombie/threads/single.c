// Tells whether the process has one thread, from libc's variable or the runtime's own. Any context; no lock.

#include "threads/single.h"

#include "images/loader.h"

static char own = 1;
const char *zg_single = &own;

// Look the symbol up by name: a reference would make the library depend on a C library that defines it.
void zg_single_init(void) {
    const char *libcs = zg_loader_first("__libc_single_threaded");
    if (libcs) zg_single = libcs;
}

void zg_single_end(void) {
    if (__atomic_load_n(&own, __ATOMIC_RELAXED)) __atomic_store_n(&own, 0, __ATOMIC_RELAXED);
}
