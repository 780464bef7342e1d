// Interposes mlock, munlock, mlockall, munlockall, madvise, setrlimit and prlimit.
// Cold.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published_here; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "entry/forks.h"
#include "images/loader.h"
#include "limits/allowance.h"
#include "pages/locked.h"
#include "platform/arch.h"
#include "platform/os.h"
#include "process/advice.h"
#include "process/locking.h"
#include "process/runtime.h"

static struct zg_locking next_locking(void) {
    return (struct zg_locking){(int (*)(int))zg_loader_next("mlockall"), (int (*)(void))zg_loader_next("munlockall")};
}

ZG_PUBLISH int mlockall(int flags) {
    struct zg_locking next = next_locking();
    return zg_runtime_is_started() ? zg_locking_lock_all(flags, next) : next.lock_all(flags);
}

ZG_PUBLISH int munlockall(void) {
    struct zg_locking next = next_locking();
    return zg_runtime_is_started() ? zg_locking_unlock_all(next) : next.unlock_all();
}

enum { TRIES = 8 };
long zg_mlock_by_number(long number, uint64_t start, uint64_t bytes, long flags, const uint64_t *frame) {
    bool locks = number != SYS_munlock;
    long result = zg_arch_syscall(number, (long)start, (long)bytes, flags, 0, 0, 0);
    bool is_started = zg_runtime_is_started();
    // Retries: another thread may have unlocked the freed blocks first, or used up the released limit. With 4 tries,
    // one of 600,000 calls failed (four threads on two busy processors).
    for (int i = 0; i < TRIES && result < 0 && locks && is_started && zg_locked_any(); i++) {
        zg_locking_unlock_freed(frame);
        result = zg_arch_syscall(number, (long)start, (long)bytes, flags, 0, 0, 0);
    }
    if (result == 0 && is_started) zg_locking_note(start, bytes, locks, frame);
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

ZG_PUBLISH int mlock(const void *start, size_t bytes) {
    return (int)zg_mlock_by_number(SYS_mlock, (uint64_t)start, bytes, 0, ZG_FRAME);
}

ZG_PUBLISH int mlock2(const void *start, size_t bytes, unsigned flags) {
    return (int)zg_mlock_by_number(flags ? SYS_mlock2 : SYS_mlock, (uint64_t)start, bytes, flags, ZG_FRAME);
}

ZG_PUBLISH int munlock(const void *start, size_t bytes) {
    return (int)zg_mlock_by_number(SYS_munlock, (uint64_t)start, bytes, 0, ZG_FRAME);
}

ZG_PUBLISH int madvise(void *start, size_t bytes, int advice) {
    static int (*next)(void *, uint64_t, int);
    if (!next) next = (int (*)(void *, uint64_t, int))zg_loader_next("madvise");
    void *address = (void *)zg_arch_address((uint64_t)start);
    if (!zg_advice_concerns((uint64_t)address, bytes, advice)) return next(start, bytes, advice);
    return zg_advice_apply(address, bytes, advice, next);
}

// <sys/resource.h> is not included: it declares these functions itself. struct rlimit and struct rlimit64 have the same
// layout.
enum { ADDRESS_SPACE = 9 /* RLIMIT_AS */ };
static int limit(int process, int resource, const void *wanted, void *before, const uint64_t *frame) {
    bool is_self = !process || process == zg_arch_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    bool is_ours = wanted && is_self && zg_runtime_is_started();
    if (resource == ADDRESS_SPACE && is_ours) {
        zg_forks_leave_windows(frame);
        if (zg_os_is_own_process()) zg_allowance_before_limit(*(const uint64_t *)wanted);
    }
    long result = zg_arch_syscall(SYS_prlimit64, process, resource, (long)wanted, (long)before, 0, 0);
    if (result >= 0) {
        if (is_ours && zg_os_is_own_process()) zg_allowance_reread();
        return 0;
    }
    errno = (int)-result;
    return -1;
}

#define PUBLISH_LIMITS(set, exchange)                                                                                  \
    ZG_PUBLISH int zg_published_##set(int resource, const void *wanted) __asm__(#set);                                 \
    ZG_PUBLISH int zg_published_##set(int resource, const void *wanted) {                                              \
        return limit(0, resource, wanted, NULL, ZG_FRAME);                                                             \
    }                                                                                                                  \
    ZG_PUBLISH int zg_published_##exchange(int process, int resource, const void *wanted,                              \
                                           void *before) __asm__(#exchange);                                           \
    ZG_PUBLISH int zg_published_##exchange(int process, int resource, const void *wanted, void *before) {              \
        return limit(process, resource, wanted, before, ZG_FRAME);                                                     \
    }
PUBLISH_LIMITS(setrlimit, prlimit)
PUBLISH_LIMITS(setrlimit64, prlimit64)

#endif
