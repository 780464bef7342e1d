// Memory tags of AArch64 (FEAT_MTE). The library is compiled for processors without these instructions, so call these
// functions only if zg_arch_has_tags returns true.
// Any context; takes no lock.

#if defined(__aarch64__)

#define _GNU_SOURCE
#include "platform/arch.h"

#include <sys/auxv.h>
#include <ucontext.h>

// HWCAP2_MTE of newer asm/hwcap.h; PSTATE.TCO (Arm Architecture Reference Manual, C5.2.19) in a context's pstate.
enum { HAS_TAGS = 1 << 18, UNCHECKED = 1 << 25, GRANULE = 16 };

bool zg_arch_has_tags(void) { return getauxval(AT_HWCAP2) & HAS_TAGS; }

void zg_arch_set_tags(uint64_t start, uint64_t bytes, uint32_t tag) {
    enum { AT_A_TIME = 8 * GRANULE };
    uint64_t at = zg_arch_with_tag(start, tag), end = at + bytes;
    for (; end - at >= AT_A_TIME; at += AT_A_TIME)
        __asm__ volatile(".arch_extension memtag\n st2g %0, [%0]\n st2g %0, [%0, #32]\n st2g %0, [%0, #64]\n"
                         " st2g %0, [%0, #96]" ::"r"(at)
                         : "memory");
    for (; end - at >= 2 * GRANULE; at += 2 * GRANULE)
        __asm__ volatile(".arch_extension memtag\n st2g %0, [%0]" ::"r"(at) : "memory");
    if (at != end) __asm__ volatile(".arch_extension memtag\n stg %0, [%0]" ::"r"(at) : "memory");
}

uint32_t zg_arch_memory_tag(uint64_t address) {
    __asm__ volatile(".arch_extension memtag\n ldg %0, [%0]" : "+r"(address)::"memory");
    return zg_arch_tag(address);
}

bool zg_arch_check_tags(bool on) {
    uint64_t before;
    __asm__ volatile(".arch_extension memtag\n mrs %0, tco" : "=r"(before));
    if (on) __asm__ volatile(".arch_extension memtag\n msr tco, #0" ::: "memory");
    else __asm__ volatile(".arch_extension memtag\n msr tco, #1" ::: "memory");
    return !(before & UNCHECKED);
}

void zg_arch_leave_unchecked(void *ucontext) { ((ucontext_t *)ucontext)->uc_mcontext.pstate |= UNCHECKED; }

#endif
