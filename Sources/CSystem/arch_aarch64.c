// aarch64: reads the tick counter and probes processor features. No state, no locks.

#if defined(__aarch64__)
#include "zg_system.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

// HWCAP2_MTE and PR_GET_TAGGED_ADDR_CTRL, which older headers lack (asm/hwcap.h, linux/prctl.h).
enum { HAS_TAGS = 1 << 18, GET_TAGGED_ADDRESSES = 56 };

// Masked loads of SVE skip inactive lanes at no cost, so they are not reported.
int zg_system_has_masked_loads(void) { return 0; }

uint64_t zg_system_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

int zg_system_probe_tags(void) {
    if (!(getauxval(AT_HWCAP2) & HAS_TAGS)) return 0;
    return prctl(GET_TAGGED_ADDRESSES, 0, 0, 0, 0) < 0 ? -errno : 1;
}
#endif
