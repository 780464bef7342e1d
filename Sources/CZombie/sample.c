// Sampling: the random intervals. Evenly distributed from 1 to twice the rate less 1, whose mean is the rate: no block waits
// longer than twice the expected time. Slow path; no lock.

#include "sample.h"

#include "arch.h"
#include "config.h"
#include "os.h"

uint8_t zg_passing;
__thread int32_t zg_sample_left;

static __thread bool has_drawn __attribute__((tls_model("initial-exec")));
static uint64_t state;

void zg_sample_init(void) {
    if (!zg_config.sample_rate) {
        if (zg_config.overhead) zg_passing = zg_passing_budget;
        return;
    }
    state = zg_mix(zg_config.sample_seed);
    if (!zg_config.sample_seed) state = zg_mix(zg_arch_ticks()) ^ zg_mix((uint64_t)zg_os_pid()) ^ (uint64_t)&state;
    zg_passing = zg_passing_sample;
}

void zg_sample_after_fork_in_child(void) {
    if (zg_passing == zg_passing_sample && !zg_config.sample_seed) state ^= zg_mix((uint64_t)zg_os_pid());
    zg_sample_left = 0;
    has_drawn = false;
}

bool zg_sample_draw(void) {
    uint64_t drawn = zg_mix(zg_mix(__atomic_add_fetch(&state, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED)));
    int32_t left = 1 + (int32_t)(drawn % (2 * (uint64_t)zg_config.sample_rate - 1));
    bool first = !has_drawn;
    has_drawn = true;
    zg_sample_left = left;
    // A thread's first block is not taken because it is the first: the interval begins with it.
    return first && --zg_sample_left > 0;
}
