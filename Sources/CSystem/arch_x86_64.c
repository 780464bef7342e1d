// x86-64: reads the tick counter and probes processor features. No state, no locks.

#if defined(__x86_64__)
#include "zg_system.h"

int zg_system_has_masked_loads(void) {
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

uint64_t zg_system_ticks(void) { return __builtin_ia32_rdtsc(); }

int zg_system_probe_tags(void) { return 0; }

#endif
