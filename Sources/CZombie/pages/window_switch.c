// Decides whether there are windows: the kernel, the options and the caller must allow them.
// Slow path; try_to_start takes the lock of windows.

#define _GNU_SOURCE
#include "pages/window_switch.h"

#include <sys/resource.h>

#include "images/module.h"
#include "pages/protect.h"
#include "pages/window_state.h"
#include "platform/libc.h"
#include "platform/os.h"
#include "settings/config.h"

struct range {
    uint64_t start, bytes;
};

static bool is_in(struct range range, uint64_t address) { return address - range.start < range.bytes; }

static enum { is_untried, is_started, is_stopped } state;
static struct range libc, loader;
static struct range copying[2]; // functions of libc that allocate blocks for the program

static struct range range_of_module(uint64_t function) {
    struct zg_module module;
    if (!zg_module_find_unwind(function, &module)) return (struct range){0, 0};
    return (struct range){module.start, module.end - module.start};
}

// Finds the images of libc and of the loader. Call at the start: later another thread may hold the loader's lock.
static void find_libc(void) {
    static const char names[][8] = {"strdup", "strndup"};
    uint64_t in_libc = zg_libc_address();
    libc = range_of_module(in_libc);
#ifndef ZG_STATIC
    extern void *__tls_get_addr(void *); // defined by the loader
    loader = range_of_module((uint64_t)__tls_get_addr);
#endif
    // Look up libc's functions by name, because the runtime publishes functions of the same names.
    for (uint32_t i = 0; i < ZG_ARRAY_COUNT(names); i++) {
        uint64_t function = (uint64_t)zg_module_function_in(in_libc, names[i]);
        if (function) copying[i] = (struct range){function, ZG_POLICY_COPYING_FUNCTION_BYTES};
    }
}

void zg_window_reserve(void) {
    if (!zg_config.isolated_per_context) return;
    find_libc();
    if (zg_config.isolated_windows == zg_isolated_windows_off) return;
    if (zg_config.on_finding == zg_on_finding_continue) return; // contents of freed blocks are needed later
    // RLIMIT_AS counts all windows as mapped memory, even those whose blocks are freed.
    if (zg_os_address_space() != RLIM_INFINITY) return;
    for (uint64_t pages = ZG_POLICY_AREA_PAGES_MOST;
         pages >= ZG_POLICY_AREA_PAGES_LEAST && !zg_alias_init(pages, ZG_POLICY_POPULATED_PAGES * ZG_PAGE_BYTES);
         pages /= 4) {
    }
}

// Probes whether the kernel can map shared memory twice and guard pages of it.
static bool can_guard_windows(void) {
    char *common = zg_os_map_common(ZG_PAGE_BYTES), *window = NULL;
    if (!common) return false;
    window = zg_os_map_again(common, ZG_PAGE_BYTES);
    bool done = window && zg_os_populate(window, ZG_PAGE_BYTES) == 0 && zg_os_guard(window, ZG_PAGE_BYTES) == 0;
    if (window) zg_os_release(window, ZG_PAGE_BYTES);
    zg_os_release(common, ZG_PAGE_BYTES);
    return done;
}

// Probes the kernel and reserves the tables. False if there can be no windows. Under the lock.
static bool start(void) {
    if (!zg_alias_area.pages || zg_protection_now() != zg_protection_guards || !can_guard_windows()) return false;
    if (!zg_windows_reserve_tables()) return false;
    zg_store(&zg_windows.owner, (uint64_t)zg_os_pid());
    return libc.bytes != 0;
}

static bool try_to_start(void) {
    zg_windows_take_lock();
    if (state == is_untried) __atomic_store_n(&state, start() ? is_started : is_stopped, __ATOMIC_RELEASE);
    zg_windows_drop_lock();
    return state == is_started;
}

void zg_window_stop(void) { __atomic_store_n(&state, is_stopped, __ATOMIC_RELEASE); }
bool zg_window_is_on(void) { return __atomic_load_n(&state, __ATOMIC_RELAXED) == is_started; }
bool zg_window_may_be(void) { return zg_alias_area.pages && __atomic_load_n(&state, __ATOMIC_RELAXED) != is_stopped; }
bool zg_window_is_forced(void) { return zg_config.isolated_windows == zg_isolated_windows_all; }

// libc uses blocks of its own between a fork and the handlers that map the child's windows. So blocks of libc and of
// the loader do not lie in windows, except copies that libc makes for the program.
static bool may_use_windows(uint64_t caller) {
    if (ZG_LIKELY(!is_in(libc, caller))) return !is_in(loader, caller);
    return zg_window_is_copying_caller(caller);
}

bool zg_window_is_copying_caller(uint64_t caller) { return is_in(copying[0], caller) || is_in(copying[1], caller); }

bool zg_window_is_for(uint64_t caller) {
    uint32_t known = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    bool is_on = ZG_LIKELY(known != is_untried) ? known == is_started : try_to_start();
    return is_on && !zg_protection_is_stopped() && may_use_windows(caller);
}
