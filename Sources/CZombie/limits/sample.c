// Draws the random sampling intervals. They are geometrically distributed, so each block is sampled with the same
// probability however few blocks its thread allocates. Slow path; no lock.

#include "limits/sample.h"

#include "heap/allocate.h"
#include "heap/foreign.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "settings/config.h"
#include "settings/coverage.h"
#include "settings/bypass.h"
#include "settings/stats.h"

__thread int32_t zg_sample_left;

// Value of zg_sample_left when passed_blocks was last raised.
static __thread int32_t most_left __attribute__((tls_model("initial-exec")));
static __thread bool has_drawn __attribute__((tls_model("initial-exec")));
static uint64_t state;

void zg_sample_start(void) {
    if (zg_bypass_mode == zg_bypass_all || (!zg_config.sample_rate && !zg_config.overhead)) return;
    if (!zg_foreign_find_next()) {
        zg_stats_degrade(zg_degradation_not_passed_on);
        return;
    }
    if (!zg_config.sample_rate) {
        zg_bypass_mode = zg_bypass_budget;
        return;
    }
    state = zg_mix(zg_config.sample_seed);
    if (!zg_config.sample_seed) state = zg_mix(zg_arch_ticks()) ^ zg_mix((uint64_t)zg_os_pid()) ^ (uint64_t)&state;
    zg_bypass_mode = zg_bypass_sample;
    zg_allocate_init();
    zg_coverage_declined(zg_coverage_reason_sample_rate);
}

void zg_sample_after_fork_in_child(void) {
    if (zg_bypass_mode == zg_bypass_sample && !zg_config.sample_seed) state ^= zg_mix((uint64_t)zg_os_pid());
    zg_sample_left = 0;
    has_drawn = false;
}

// Returns -ln(u / 2^64) in units of 2^-16. The leading zeros give the integer part of the base-2 logarithm; m + 0.3437
// m (1 - m) approximates the fractional part from the mantissa m, with an error below a third of a percent.
static uint64_t exponential(uint64_t u) {
    uint32_t zeros = (uint32_t)__builtin_clzll(u | 1);
    uint64_t m = (u << zeros << 1) >> 48; // the 16 bits below the leading one bit
    uint64_t fraction = m + (m * (65536 - m) / 65536) * 22525 / 65536;
    return (((uint64_t)(zeros + 1) << 16) - fraction) * 45426 / 65536; // ln 2
}

// Draws the number of blocks up to and including the next sample.
static int32_t next_interval(void) {
    uint64_t drawn = zg_random(&state);
    if (zg_config.sample_rate == 1) return 1;
    return 1 + (int32_t)zg_min(exponential(drawn) * zg_config.sample_rate >> 16, INT32_MAX - 1);
}

void zg_sample_count_bypassed(void) {
    if (!has_drawn || zg_sample_left > most_left) return;
    zg_stats_add(zg_counter_passed_blocks, (uint32_t)(most_left - zg_sample_left));
    most_left = zg_sample_left;
}

bool zg_sample_draw(void) {
    zg_sample_left++; // undo the caller's decrement: this block is sampled, or is the first of the interval
    zg_sample_count_bypassed();
    int32_t interval = next_interval();
    most_left = interval;
    if (!has_drawn) {
        // Start the first interval at the thread's first block, so that this block is sampled no more often than
        // others.
        has_drawn = true;
        zg_sample_left = interval - 1;
        if (interval > 1) return true;
        most_left = interval = next_interval();
    }
    zg_sample_left = interval;
    return false;
}
