// Measures the rate of the processor's clock since the start.

#define _GNU_SOURCE
#include "platform/clock.h"

#include <time.h>

#include "platform/arch.h"
#include "platform/os.h"
#include "platform/ratio.h"

// Time of the processor's clock and of CLOCK_MONOTONIC at start-up.
static uint64_t first_ticks, first_ns;
// forked_ns: processor time at the last fork, including that of ancestors. inherited_ns: processor time of the
// ancestors alone.
static uint64_t forked_ns, inherited_ns;

void zg_clock_init(void) {
    first_ticks = zg_arch_ticks();
    first_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
}

uint64_t zg_clock_process_ns(void) { return inherited_ns + zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

void zg_clock_before_fork(void) { forked_ns = zg_clock_process_ns(); }
void zg_clock_after_fork_in_child(void) { inherited_ns = forked_ns; }

// The rate of the processor's clock as fixed-point ratios (ratio.h). The rate is guessed until the process is old
// enough to measure it.
struct rate {
    uint64_t ns_for_tick, ticks_for_ns;
};
static const struct rate guessed = {ZG_RATIO_ONE * 2 / 5, ZG_RATIO_ONE * 5 / 2};

static struct rate rate(void) {
    static struct rate known;
    static uint64_t known_at;
    uint64_t ticks = zg_arch_ticks() - first_ticks, at = zg_load(&known_at);
    struct rate rate = {zg_load(&known.ns_for_tick), zg_load(&known.ticks_for_ns)};
    if (rate.ns_for_tick && rate.ticks_for_ns && ticks < 2 * at) return rate;
    uint64_t ns = zg_os_clock_ns(CLOCK_MONOTONIC) - first_ns;
    if (ns < 100000 || !ticks) return guessed;
    rate.ns_for_tick = zg_max(zg_scaled(ns, ZG_RATIO_ONE, ticks), 1);
    rate.ticks_for_ns = zg_max(zg_scaled(ticks, ZG_RATIO_ONE, ns), 1);
    zg_store(&known.ns_for_tick, rate.ns_for_tick);
    zg_store(&known.ticks_for_ns, rate.ticks_for_ns);
    zg_store(&known_at, ticks);
    return rate;
}

uint64_t zg_clock_ns(uint64_t ticks) { return zg_by_ratio(ticks, rate().ns_for_tick); }
uint64_t zg_clock_ticks(uint64_t ns) { return zg_by_ratio(ns, rate().ticks_for_ns); }
