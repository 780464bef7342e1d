// Initializes the heap at the first allocation, before any constructor runs. Cold.

#define _GNU_SOURCE
#include "process/ready.h"

#include <sys/resource.h>

#include "blocks/lookup.h"
#include "blocks/slab.h"
#include "blocks/span_table.h"
#include "blocks/tags.h"
#include "heap/allocate.h"
#include "heap/foreign.h"
#include "heap/quarantine.h"
#include "images/loader.h"
#include "images/module.h"
#include "pages/choice.h"
#include "pages/exact_ends.h"
#include "pages/lifetimes.h"
#include "pages/overread.h"
#include "pages/private_pages.h"
#include "pages/window.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "pressure/pressure.h"
#include "settings/config.h"
#include "settings/bypass.h"
#include "settings/exemption.h"
#include "settings/stats.h"
#include "threads/single.h"
#include "stacks/depot.h"
#include "stacks/focus.h"
#include "stacks/frame_index.h"
#include "stacks/pair_log.h"
#include "stacks/watched.h"
#include "zombies/zombie.h"

enum { not_started, starting, ready, failed, exempt };
static uint32_t heap_state;

// Reserves regions as large as the address space allows. If the address space is limited (ulimit -v) or small, most of
// it is left to the program.
static bool reserve_heap(void) {
    uint64_t limit = zg_os_address_space();
    bool limited = limit != RLIM_INFINITY;
    if (limited) zg_stats_degrade(zg_degradation_small_address_space);
    for (uint32_t shift = 36; shift >= 20; shift -= 2) {
        // Slots, records and bits of free slots take about 45 regions of 1 << shift bytes in all.
        if (limited && (UINT64_C(45) << shift) > limit / 8) continue;
        if (!zg_slab_init(shift)) continue;
        if (shift < 36) zg_stats_degrade(zg_degradation_small_address_space);
        uint64_t area = limited ? limit / 8 : UINT64_C(64) << shift,
                 fence = limited ? limit / 16 : UINT64_C(16) << shift;
        if (zg_span_table_init(area & ~(ZG_UNIT_BYTES - 1), fence & ~(ZG_PAGE_BYTES - 1), ZG_PRIVATE_AREA_ALIGNMENT))
            return true;
        return zg_span_table_init(UINT64_C(4) << shift, UINT64_C(1) << shift, ZG_PRIVATE_AREA_ALIGNMENT);
    }
    return false;
}

static void initialise(void) {
    zg_pressure_find_filters(); // first: finds which calls are allowed later; makes only calls of every program's start
    zg_os_remember();
    zg_config_init();
    zg_module_init(zg_config.find_object);
    if (zg_loader_is_static) zg_frame_index_make();
    zg_focus_init();
    zg_single_init();
    zg_foreign_find_libc();
    zg_foreign_init();
    zg_exemption_init();
    if (zg_is_exempt) {
        zg_foreign_find_next(); // blocks come from the allocator that an unguarded process would use
        zg_bypass_mode = zg_bypass_all;
        return __atomic_store_n(&heap_state, exempt, __ATOMIC_RELEASE);
    }
    if (!zg_module_has_find_object()) zg_stats_degrade(zg_degradation_no_find_object);
    if (!zg_os_can_read_memory()) zg_stats_degrade(zg_degradation_no_safe_read);
    zg_clock_init();
    zg_overread_init();
    zg_quarantine_init();
    uint64_t limit = zg_os_address_space();
    bool done = zg_os_has_expected_pages() && zg_depot_init(limit == RLIM_INFINITY ? UINT64_MAX : limit / 32) &&
                reserve_heap() && zg_choice_init() && zg_lifetime_init() && zg_private_init() && zg_exact_end_init();
    if (done && zg_config.profile == zg_profile_mte && !zg_tags_start())
        zg_stats_degrade(zg_degradation_no_memory_tags);
    zg_watched_init();
    if (!zg_pair_log_init()) zg_stats_degrade(zg_degradation_no_table_memory);
    if (done) zg_window_reserve();
    if (done) zg_lookup_init();
    if (done) zg_zombie_init(zg_config.zombies, zg_config.on_finding == zg_on_finding_continue);
    uint64_t nodes;
    zg_stats->layout.nodes_base = (uint64_t)zg_depot_nodes(&nodes);
    zg_stats->layout.node_bytes = sizeof(struct zg_depot_node);
    zg_stats->layout.nodes_used = nodes;
    if (!done) zg_stats_degrade(zg_degradation_heap_exhausted);
    if (!done) zg_bypass_mode = zg_bypass_none;
    if (done) zg_allocate_init();
    __atomic_store_n(&heap_state, done ? ready : failed, __ATOMIC_RELEASE);
}

bool zg_ready(void) {
    uint32_t state = __atomic_load_n(&heap_state, __ATOMIC_ACQUIRE);
    if (ZG_LIKELY(state == ready)) return true;
    // No second thread exists before the first allocation. libc serves nested calls during initialization.
    uint32_t expected = not_started;
    if (!__atomic_compare_exchange_n(&heap_state, &expected, starting, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return false;
    initialise();
    return __atomic_load_n(&heap_state, __ATOMIC_ACQUIRE) == ready;
}

bool zg_ready_is_hopeless(void) { return __atomic_load_n(&heap_state, __ATOMIC_RELAXED) == failed; }
