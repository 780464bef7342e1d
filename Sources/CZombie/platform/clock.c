// How fast the processor's clock runs, as measured since the start.

#define _GNU_SOURCE
#include "platform/clock.h"

#include <time.h>

#include "platform/arch.h"
#include "platform/os.h"

static uint64_t first_ticks, first_ns; // the processor's clock and CLOCK_MONOTONIC at one time
static uint64_t forked_ns,
    inherited_ns; // processor time of the process and those that it was forked from; theirs alone

void zg_clock_init(void) {
    first_ticks = zg_arch_ticks();
    first_ns = zg_os_clock_ns(CLOCK_MONOTONIC);
}

uint64_t zg_clock_process_ns(void) { return inherited_ns + zg_os_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

void zg_clock_before_fork(void) { forked_ns = zg_clock_process_ns(); }
void zg_clock_after_fork_in_child(void) { inherited_ns = forked_ns; }

// Ticks per 1024 ns; before the process is old enough to tell, a guess.
static uint64_t rate(void) {
    static uint64_t known, known_at;
    uint64_t ticks = zg_arch_ticks() - first_ticks, at = zg_load(&known_at);
    if (zg_load(&known) && ticks < 2 * at) return zg_load(&known);
    uint64_t ns = zg_os_clock_ns(CLOCK_MONOTONIC) - first_ns;
    if (ns < 100000) return 2560;
    uint64_t measured = (uint64_t)((double)ticks * 1024 / (double)ns);
    zg_store(&known, measured ? measured : 1);
    zg_store(&known_at, ticks);
    return measured ? measured : 1;
}

uint64_t zg_clock_ns(uint64_t ticks) { return (uint64_t)((double)ticks * 1024 / (double)rate()); }
uint64_t zg_clock_ticks(uint64_t ns) { return (uint64_t)((double)ns * (double)rate() / 1024); }
