// Names of system calls that hold up threads, and those that a stop from outside ends (signal(7), "Interruption of system calls and
// library functions by stop signals").

#include "zg_unwind_threads.h"

#include <stddef.h>
#include <sys/syscall.h>

// clang-format off
#define ZG_CALLS(X)                                                                                                    \
    X(read) X(write) X(readv) X(writev) X(pread64) X(pwrite64) X(preadv) X(pwritev) X(openat) X(close) X(fsync)        \
    X(fdatasync) X(sync) X(syncfs) X(sync_file_range) X(fallocate) X(ftruncate) X(flock) X(fcntl) X(getdents64)        \
    X(statx) X(newfstatat) X(unlinkat) X(renameat2) X(mkdirat) X(ioctl) X(sendfile) X(splice) X(copy_file_range)       \
    X(connect) X(accept) X(accept4) X(sendto) X(recvfrom) X(sendmsg) X(recvmsg) X(sendmmsg) X(recvmmsg) X(futex)       \
    X(nanosleep) X(clock_nanosleep) X(wait4) X(waitid) X(mmap) X(munmap) X(mprotect) X(madvise) X(msync) X(mremap)     \
    X(ppoll) X(pselect6) X(epoll_pwait) X(semop) X(semtimedop) X(rt_sigtimedwait) X(rt_sigsuspend) X(io_getevents)     \
    X(io_uring_enter) X(msgrcv) X(msgsnd) X(mq_timedreceive) X(mq_timedsend) X(execve) X(clone) X(getrandom)
// clang-format on

const char *zg_call_name(long number) {
    switch (number) {
#define ZG_X(name)                                                                                                     \
    case SYS_##name: return #name;
        ZG_CALLS(ZG_X)
#undef ZG_X
#ifdef SYS_poll
    case SYS_poll: return "poll";
    case SYS_select: return "select";
    case SYS_epoll_wait: return "epoll_wait";
    case SYS_open: return "open";
    case SYS_stat: return "stat";
    case SYS_unlink: return "unlink";
    case SYS_rename: return "rename";
    case SYS_pause: return "pause";
#endif
    default: return NULL;
    }
}

bool zg_call_ends_early(long number) {
    switch (number) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_epoll_pwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_io_uring_enter: return true;
    default: return false;
    }
}

bool zg_call_waits_for_strangers(long number) { return number == SYS_accept || number == SYS_accept4; }

bool zg_call_is_futex(long number) { return number == SYS_futex; }

bool zg_call_is_restart(long number) { return number == SYS_restart_syscall; }
