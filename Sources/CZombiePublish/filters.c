// Interposes prctl and syscall, by which a program installs seccomp filters and forbids rdtsc (PR_SET_TSC).
// Any context. Other system calls are tail calls of libc's syscall: a vfork through syscall must not return through a
// frame of the runtime. Both functions are variadic in libc's headers, so asm labels name them; arguments that the
// caller omitted are forwarded unread.

#define _GNU_SOURCE
#include "publish.h"

#ifdef ZG_NOTHING_IS_PUBLISHED
typedef int zg_no_filter_is_published; // ISO C forbids an empty translation unit
#else

#include <errno.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "entry/filters.h"
#include "entry/forks.h"
#include "faults/fault.h"
#include "faults/signals.h"
#include "images/loader.h"
#include "platform/arch.h"
#include "process/locking.h"
#include "process/runtime.h"
#include "threads/heartbeat.h"

// <unistd.h> is not included: it declares syscall itself.
int execve(const char *path, char *const arguments[], char *const environment[]);
int execveat(int directory, const char *path, char *const arguments[], char *const environment[], int flags);

// Declares only arguments passed in registers (System V ABI). The system call's sixth argument lies in the caller's
// frame, where a tail call leaves it. A C function with that parameter would store it again: if the program passed
// fewer arguments, the store could overwrite a local variable of the caller, such as a futex that another thread has
// just changed.
typedef long syscall_function(long number, long a, long b, long c, long d, long e ZG_STACK_ARGUMENT(long f));

static syscall_function *next_syscall;

// Looked up before main: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void look_up(void) {
    next_syscall = (syscall_function *)zg_loader_next("syscall");
}

// Makes the system call prctl, as libc's function does.
static int plain_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    return (int)ZG_RAW_SYSCALL(SYS_prctl, option, a, b, c, d, 0);
}

static ZG_COLD int watched_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    const uint64_t *frame = ZG_FRAME;
    if (option == PR_SET_TSC) {
        uint32_t before = zg_arch_ticks_stopped;
        zg_arch_ticks_stopped = before || a == PR_TSC_SIGSEGV;
        int result = plain_prctl(option, a, b, c, d);
        zg_arch_ticks_stopped = result == 0 ? a == PR_TSC_SIGSEGV : before;
        return result;
    }
    if (a == SECCOMP_MODE_STRICT) {
        zg_filters_before_strict(frame);
        int result = plain_prctl(option, a, b, c, d);
        zg_filters_after_strict(result == 0);
        return result;
    }
    int number = zg_filters_before((const void *)b, false, frame);
    int result = plain_prctl(option, a, b, c, d);
    zg_filters_after(number, result == 0);
    return result;
}

ZG_PUBLISH int zg_published_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                                  unsigned long d) __asm__("prctl");
ZG_PUBLISH int zg_published_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    if (ZG_UNLIKELY(option == PR_SET_SECCOMP || option == PR_SET_TSC)) return watched_prctl(option, a, b, c, d);
    return plain_prctl(option, a, b, c, d);
}

static ZG_COLD long seccomp(long operation, long flags, long arguments, const uint64_t *frame) {
    if (!next_syscall) look_up();
    long result;
    if (operation == SECCOMP_SET_MODE_STRICT && !flags && !arguments) {
        zg_filters_before_strict(frame);
        result = next_syscall(SYS_seccomp, operation, flags, arguments, 0, 0 ZG_STACK_ARGUMENT(0));
        zg_filters_after_strict(result == 0);
    } else if (operation == SECCOMP_SET_MODE_FILTER) {
        int number = zg_filters_before((const void *)arguments, flags & SECCOMP_FILTER_FLAG_TSYNC, frame);
        result = next_syscall(SYS_seccomp, operation, flags, arguments, 0, 0 ZG_STACK_ARGUMENT(0));
        // A positive result is the listener's descriptor, or with TSYNC the id of a thread that could not synchronize.
        // In the second case, the filter is not installed.
        bool is_thread =
            result > 0 && (flags & SECCOMP_FILTER_FLAG_TSYNC) && !(flags & SECCOMP_FILTER_FLAG_NEW_LISTENER);
        zg_filters_after(number, result >= 0 && !is_thread);
    } else {
        result = next_syscall(SYS_seccomp, operation, flags, arguments, 0, 0 ZG_STACK_ARGUMENT(0));
    }
    return result;
}

static ZG_NOINLINE long fork_by_number(long number, long a, long b, long c, long d, long e) {
    zg_runtime_before_bare_fork();
    long result = next_syscall(number, a, b, c, d, e ZG_STACK_ARGUMENT(0));
    int error = errno;
    zg_runtime_after_bare_fork(result == 0);
    errno = error;
    return result;
}

// Whether a system call waits for events, like the functions in waits.c.
static bool waits_for_events(long number, long least, long flags) {
    enum { GET_EVENTS = 1 }; // IORING_ENTER_GETEVENTS
    switch (number) {
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait: return true;
    case SYS_io_uring_enter: return (flags & GET_EVENTS) && least;
    default: return false;
    }
}

// Returns the enum zg_waits_for of the call, for zg_heartbeat_wait_ends. A timeout passed by address is not read,
// because only the kernel may dereference the pointer: such calls count as not waiting.
static int waits_by_number_for(long number, long count, long longest, long events_longest) {
    (void)count, (void)longest; // unused on architectures without the poll system call
    switch (number) {
#ifdef SYS_poll
    case SYS_poll: return longest && count ? zg_waits_for_several : zg_waits_for_nothing;
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait: return events_longest ? zg_waits_for_several : zg_waits_for_nothing;
    case SYS_io_uring_enter: return zg_waits_for_several;
    default: return zg_waits_for_nothing;
    }
}

static ZG_NOINLINE long wait_by_number(long number, long a, long b, long c, long d, long e, long f) {
    struct zg_heartbeat *heartbeat = zg_heartbeat_wait_begins();
    long result = ZG_RAW_SYSCALL(number, a, b, c, d, e, f);
    // ETIME is io_uring's timeout: no events.
    long events = result < 0 && number == SYS_io_uring_enter && errno == ETIME ? 0 : result;
    if (heartbeat) zg_heartbeat_wait_ends(heartbeat, waits_by_number_for(number, b, c, (int)d), events);
    return result;
}

ZG_PUBLISH long zg_published_syscall(long number, long a, long b, long c, long d,
                                     long e ZG_STACK_ARGUMENT(long f)) __asm__("syscall");
ZG_PUBLISH long zg_published_syscall(long number, long a, long b, long c, long d, long e ZG_STACK_ARGUMENT(long f)) {
    if (ZG_UNLIKELY(number == SYS_seccomp)) return seccomp(a, b, c, ZG_FRAME);
    if (ZG_UNLIKELY(number == SYS_prctl && (a == PR_SET_SECCOMP || a == PR_SET_TSC)))
        return watched_prctl((int)a, (unsigned long)b, (unsigned long)c, (unsigned long)d, (unsigned long)e);
    if (ZG_UNLIKELY(number == SYS_mlock || number == SYS_munlock || number == SYS_mlock2))
        return zg_mlock_by_number(number, (uint64_t)a, (uint64_t)b, number == SYS_mlock2 ? c : 0, ZG_FRAME);
    if (ZG_UNLIKELY(number == SYS_mlockall || number == SYS_munlockall)) {
        long result = ZG_RAW_SYSCALL(number, a, 0, 0, 0, 0, 0);
        if (result == 0 && zg_runtime_is_started()) zg_locking_note_all(number == SYS_mlockall, ZG_FRAME);
        return result;
    }
    if (ZG_UNLIKELY(number == SYS_exit_group)) zg_fault_before_exit(ZG_FRAME, (int)a);
    if (ZG_UNLIKELY(number == SYS_execve))
        return execve((const char *)a, (char *const *)b, (char *const *)c); // calls the published function (exec.c)
    if (ZG_UNLIKELY(number == SYS_execveat))
        return execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e);
    if (ZG_UNLIKELY(number == SYS_sigaltstack || number == SYS_rt_sigaction)) {
        long result;
        if (zg_signals_by_number(number, a, b, c, d, &result)) return result;
    }
    if (ZG_UNLIKELY(zg_heartbeats != NULL) && waits_for_events(number, c, d))
        return wait_by_number(number, a, b, c, d, e, (long)*ZG_STACK_ARGUMENT_ADDRESS(f));
    if (ZG_UNLIKELY(!next_syscall)) look_up();
    if (ZG_UNLIKELY(zg_forks_by_number(number, a, b))) return fork_by_number(number, a, b, c, d, e);
    ZG_MUST_TAIL return next_syscall(number, a, b, c, d, e ZG_STACK_ARGUMENT(f));
}

#endif
