// Memory shared with other processes: memfds, atomic words, and futexes.

#include "zg_system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int zg_system_memfd(const char *name) {
    int descriptor = memfd_create(name, MFD_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

// Writes the contents of a memfd. RLIMIT_FSIZE applies to memfds, and exceeding it raises SIGXFSZ, so the soft limit is
// raised to the hard limit meanwhile.
static int fill(int descriptor, const void *contents, size_t bytes) {
    struct rlimit limit, lifted;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return -errno;
    lifted = (struct rlimit){.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (limit.rlim_max < bytes) return -EFBIG;
    if (limit.rlim_cur < bytes && setrlimit(RLIMIT_FSIZE, &lifted) != 0) return -errno;
    ssize_t written = write(descriptor, contents, bytes);
    int error = written < 0 ? -errno : written == (ssize_t)bytes ? 0 : -ENOSPC;
    if (limit.rlim_cur < bytes) setrlimit(RLIMIT_FSIZE, &limit);
    return error;
}

int zg_system_sealed_memfd(const char *name, const void *contents, size_t bytes) {
    enum { NOEXEC_SEAL = 8 }; // MFD_NOEXEC_SEAL, Linux 6.3: required if vm.memfd_noexec is 2
    int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL);
    if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return -errno;
    fchmod(descriptor, 0600);
    int error = fill(descriptor, contents, bytes);
    if (!error && fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) error = -errno;
    if (!error) return descriptor;
    close(descriptor);
    return error;
}

uint32_t zg_system_load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
void zg_system_store(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
uint32_t zg_system_exchange(uint32_t *word, uint32_t value) {
    return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}
uint64_t zg_system_load_long(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
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
