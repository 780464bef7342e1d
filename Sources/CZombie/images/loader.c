// dlopen and dlclose as the runtime sees them. Cold; no lock.

#define _GNU_SOURCE
#include "images/loader.h"

#include <dlfcn.h>

#include "images/gone.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "zombies/classes.h"

static uint32_t closed_since; // a library may have gone: its addresses may get other code

int zg_loader_before_open(int flags) {
    zg_gone_note_first();
    if (__atomic_exchange_n(&closed_since, 0, __ATOMIC_RELAXED)) {
        zg_unwind_forget();
        zg_classes_forget_cxx();
    }
    if (!(flags & RTLD_DEEPBIND)) return flags;
    zg_stats_add(zg_counter_deepbind_dropped, 1);
    zg_stats_degrade(zg_degradation_deepbind_dropped);
    return flags & ~RTLD_DEEPBIND;
}

void zg_loader_before_close(void) {
    zg_gone_note_loaded();
    __atomic_store_n(&closed_since, 1, __ATOMIC_RELAXED);
}

void *zg_loader_next(const char *symbol) { return dlsym(RTLD_NEXT, symbol); }
