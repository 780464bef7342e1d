// Memory shared with another process: anonymous files, atomic words, and waking whoever waits for them.

#include "zg_system.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int zg_system_memfd(const char *name) {
    int descriptor = memfd_create(name, MFD_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

uint32_t zg_system_load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
void zg_system_store(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
uint32_t zg_system_increment(uint32_t *word) { return __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL); }

int zg_system_futex_wake(uint32_t *word) {
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return woken < 0 ? -errno : (int)woken;
}

void zg_system_futex_wait_private(const uint32_t *word, uint32_t seen, int64_t milliseconds) {
    struct timespec most = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}

void zg_system_futex_wake_private(const uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
