// Probes features of the kernel and the C library. Most probes try a call, on memory of their own. No state, no locks.

#include "zg_system.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { guard_install = 102 }; // MADV_GUARD_INSTALL, Linux 6.13; older headers lack it

int zg_system_has_find_object(void) { return dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL; }

int zg_system_probe_guard_pages(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -errno;
    int result = madvise(page, size, guard_install) ? -errno : 0;
    munmap(page, size);
    return result;
}

// Tries the calls after index `*last`, which is shared with the parent. Does not return.
static void try_from(const int32_t *numbers, int count, int *last) {
    while (++*last < count) {
        long number = numbers[*last];
        // With these arguments every call fails or has no effect, and ppoll does not wait.
        syscall(number, number == SYS_kill ? 0L : -1L, -1L, 0L, 0L, 0L, 0L);
    }
    syscall(SYS_exit_group, 0);
}

int zg_system_try_calls(const int32_t *numbers, int count, uint64_t *passing) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int *last = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), error = 0;
    if (last == MAP_FAILED) return -errno;
    *passing = count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
    // If a seccomp filter kills the child for a call, the next child continues with the call behind it.
    for (*last = -1; *last < count && !error;) {
        int status = 0, before = *last;
        pid_t child = fork();
        if (!child) {
            signal(SIGSYS, SIG_DFL);
            try_from(numbers, count, last);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) error = -errno;
        else if (WIFSIGNALED(status) && *last > before && *last < count) *passing &= ~(UINT64_C(1) << *last);
        else if (WIFSIGNALED(status)) error = -EIO;
    }
    munmap(last, size);
    return error;
}

int zg_system_tracing_kills(void) {
    static const int32_t numbers[] = {SYS_ptrace, SYS_pidfd_getfd};
    uint64_t passing;
    return !zg_system_try_calls(numbers, 2, &passing) && passing != 3;
}

int zg_system_probe_windows(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *common = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED) return -errno;
    void *window = mremap(common, 0, size, MREMAP_MAYMOVE); // old length 0: maps the same pages again
    int result = window == MAP_FAILED ? -errno : madvise(window, size, guard_install) ? -errno : 0;
    if (window != MAP_FAILED) munmap(window, size);
    munmap(common, size);
    return result;
}

static int open_event(struct perf_event_attr attributes) {
    attributes.size = sizeof attributes;
    attributes.disabled = attributes.exclude_kernel = attributes.exclude_hv = 1;
    long event = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return event < 0 ? -errno : (int)event;
}

int zg_system_probe_watchpoints(void) {
#if defined(__x86_64__)
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2) return -EINVAL;
    if (major < 5 || (major == 5 && minor < 18)) return -ENOSYS; // older kernels end the process at a blocked SIGTRAP
    static uint64_t word;
    struct perf_event_attr attributes = {.type = PERF_TYPE_BREAKPOINT,
                                         .sample_period = 1,
                                         .bp_type = HW_BREAKPOINT_RW,
                                         .bp_addr = (uint64_t)&word,
                                         .bp_len = HW_BREAKPOINT_LEN_8,
                                         .remove_on_exec = 1,
                                         .sigtrap = 1};
    int event = open_event(attributes);
    if (event >= 0) close(event);
    return event < 0 ? event : 0;
#else
    return -EOPNOTSUPP;
#endif
}

static void hold(void *unused) {
    (void)unused;
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
    open_event(attributes); // stays open until this process ends
}

void zg_system_hold_event(void) { zg_system_start_thread("zguard events", hold, NULL); }

int zg_system_probe_vm_read(void) {
    uint64_t from = 0x5a475a475a47, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    ssize_t count = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (count < 0) return -errno;
    return count == sizeof to && from == to ? 0 : -EIO;
}

size_t zg_system_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

// The highest bit of a stack address gives the width: the stack, which AT_RANDOM points into, is at the upper end of
// the address space, except for a comparatively small random offset.
int zg_system_address_bits(void) {
    unsigned long place = getauxval(AT_RANDOM);
    return place ? 64 - __builtin_clzl(place) : 0;
}

const char *zg_system_libc_version(void) { return gnu_get_libc_version(); }
