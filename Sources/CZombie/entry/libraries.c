// Reacts to libraries being loaded and unloaded. Cold; no lock.

#define _GNU_SOURCE
#include "entry/libraries.h"

#include <dlfcn.h>

#include "images/unloaded.h"
#include "platform/libc.h"
#include "settings/stats.h"
#include "stacks/unwind.h"
#include "zombies/classes.h"

// Nonzero after a library may have been unloaded: other code may then be loaded at its addresses.
static uint32_t closed_since;

int zg_libraries_before_open(int flags) {
    zg_unloaded_note_first();
    bool is_news = zg_unloaded_has_changed();
    if (__atomic_exchange_n(&closed_since, 0, __ATOMIC_RELAXED) || is_news) {
        zg_unwind_invalidate_rules();
        zg_classes_forget_cxx();
    }
    if (!(flags & RTLD_DEEPBIND)) return flags;
    zg_stats_add(zg_counter_deepbind_dropped, 1);
    zg_stats_degrade(zg_degradation_deepbind_dropped);
    return flags & ~RTLD_DEEPBIND;
}

void zg_libraries_before_close(void) {
    zg_unloaded_note_loaded();
    __atomic_store_n(&closed_since, 1, __ATOMIC_RELAXED);
}
