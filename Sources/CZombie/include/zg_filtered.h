// System calls of the runtime that a seccomp filter may forbid.
// A program cannot read filters that were installed before its start. The parent (zguard, or a guarded process) has
// read them, or has tried the calls, and sets ZGUARD_FILTERS. A call is harmless if every filter allows it or makes it
// fail with an error (SECCOMP_RET_ERRNO): it cannot end the process. If all calls below are harmless, the value is
// COUNT, the number of filters; otherwise COUNT:0xBITS, where bit i is set if the i-th call is harmless. Shared with
// zguard.

#ifndef ZG_FILTERED_H
#define ZG_FILTERED_H

#include <stdint.h>

// clang-format off
#define ZG_FILTERED(X)                                                                                                 \
    X(readlinkat) X(process_vm_readv) X(memfd_create) X(fchmod) X(ftruncate) X(fstat) X(newfstatat) X(geteuid)         \
    X(fcntl) X(rt_sigaction) X(clock_gettime) X(getpid) X(gettid) X(sysinfo) X(sigaltstack) X(madvise) X(mremap)       \
    X(sched_yield) X(rt_sigprocmask) X(pread64) X(prctl) X(rt_sigtimedwait) X(tgkill) X(rt_tgsigqueueinfo)             \
    X(rt_sigqueueinfo) X(close) X(prlimit64) X(openat) X(write) X(read) X(futex) X(mmap) X(munmap) X(mprotect) X(brk)  \
    X(kill) X(rt_sigpending) X(mincore) X(socket) X(connect) X(sendto) X(ppoll) X(getresuid)    \
    X(fchown)
// clang-format on

enum zg_filtered {
#define ZG_X(name) zg_filtered_##name,
    ZG_FILTERED(ZG_X)
#undef ZG_X
        zg_filtered_count
};
_Static_assert(zg_filtered_count < 64, "a bit each");

struct zg_filtered_call {
    char name[28];
    int32_t number;
};
extern const struct zg_filtered_call zg_filtered_calls[zg_filtered_count];

#endif
