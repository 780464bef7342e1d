// Collects the conditions for the isolation policy: options, statistics, and whether memory is narrow.
// Any context; no lock.

#include "pages/conditions.h"

#include "platform/os.h"
#include "settings/config.h"
#include "settings/stats.h"

static bool is_narrow;

void zg_conditions_set_narrow(bool narrow) { __atomic_store_n(&is_narrow, narrow, __ATOMIC_RELAXED); }
bool zg_conditions_is_narrow(void) { return __atomic_load_n(&is_narrow, __ATOMIC_RELAXED); }

bool zg_conditions_has_few_in_windows(void) {
    return zg_config.isolated_per_context != ZG_FENCE_ALL && zg_config.isolated_windows == zg_isolated_windows_auto;
}

struct zg_isolation_conditions zg_conditions_now(void) {
    return (struct zg_isolation_conditions){
        .live_bytes = zg_stats_live_bytes(),
        .is_narrow = zg_conditions_is_narrow(),
        .isolates_all = zg_config.isolated_per_context == ZG_FENCE_ALL,
        .has_few_in_windows = zg_conditions_has_few_in_windows(),
    };
}

static bool memory_is_short(void) { return zg_stats_get(zg_counter_pressure_level) != 0; }

static uint64_t machine_most(void) {
    static uint64_t most;
    if (ZG_UNLIKELY(!zg_load(&most))) zg_store(&most, zg_policy_machine_most(zg_os_physical_memory()));
    return zg_load(&most);
}

uint64_t zg_conditions_focus_most(enum zg_coverage_reason *reason) {
    bool is_short = memory_is_short();
    *reason = is_short ? zg_coverage_reason_pressure : zg_coverage_reason_memory;
    return is_short ? 0 : machine_most();
}

uint64_t zg_conditions_memory_most(bool first, enum zg_coverage_reason *reason) {
    struct zg_isolation_conditions conditions = zg_conditions_now();
    struct zg_private_limits limits = {
        .isolated_bytes = zg_config.isolated_bytes,
        .is_given = !ZG_IS_DEFAULT(isolated_bytes),
        .is_short = memory_is_short(),
        .machine_most = machine_most(),
    };
    return zg_policy_private_most(&conditions, &limits, first, reason);
}
