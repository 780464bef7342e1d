// Publishes what programs ask of whole mappings: mlockall and munlockall, over libc's; and madvise. Cold.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_nothing_is_published_here; // C wants a declaration in every file
#else

#include <sys/mman.h>

#include "images/loader.h"
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

ZG_PUBLISH int madvise(void *start, size_t bytes, int advice) {
    static int (*next)(void *, uint64_t, int);
    if (!next) next = (int (*)(void *, uint64_t, int))zg_loader_next("madvise");
    if (!zg_advice_concerns((uint64_t)start, bytes, advice)) return next(start, bytes, advice);
    return zg_advice_follow(start, bytes, advice, next);
}

#endif
