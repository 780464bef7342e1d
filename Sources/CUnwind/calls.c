// Names of system calls that hold up threads, and what comes of them where a thread is stopped from outside (signal(7), "Interruption of
// system calls and library functions by stop signals").

#define _GNU_SOURCE
#include "zg_unwind_threads.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

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

// What the kernel goes on with by itself after a stop, as if nothing had been: what returns ERESTARTSYS and its like, or does not listen to
// signals. A call that is not listed may return EINTR, or with less than it would have. By file: see the header.
enum zg_call_stop zg_call_when_stopped(long number) {
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4: return zg_call_reads;
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev: return zg_call_writes;
    case SYS_connect: return zg_call_connects;
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_open:
    case SYS_stat:
    case SYS_unlink:
    case SYS_rename:
    case SYS_pause:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_openat:
    case SYS_close:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_sync_file_range:
    case SYS_ftruncate:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_getdents64:
    case SYS_statx:
    case SYS_newfstatat:
    case SYS_unlinkat:
    case SYS_renameat2:
    case SYS_mkdirat:
    case SYS_futex:
    case SYS_restart_syscall:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_msync:
    case SYS_mremap:
    case SYS_rt_sigsuspend:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
    case SYS_clone: return zg_call_goes_on;
    default: return zg_call_ends;
    }
}

bool zg_call_fills_buffer(long number, const uint64_t arguments[6]) {
    if (number == SYS_recvfrom) return arguments[3] & MSG_WAITALL;
    return number == SYS_recvmsg && arguments[2] & MSG_WAITALL;
}

bool zg_socket_waits_for_ever(int socket, bool to_send) {
    struct timeval longest = {0};
    int bytes = 0;
    socklen_t size = sizeof longest;
    if (getsockopt(socket, SOL_SOCKET, to_send ? SO_SNDTIMEO : SO_RCVTIMEO, &longest, &size) != 0) return false;
    if (longest.tv_sec || longest.tv_usec) return false;
    size = sizeof bytes;
    return to_send || (getsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, &size) == 0 && bytes <= 1);
}

int zg_socket_of_process(int pid, int descriptor) {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_getfd)
    long process = syscall(SYS_pidfd_open, pid, 0);
    if (process < 0) return -errno;
    long copy = syscall(SYS_pidfd_getfd, process, descriptor, 0);
    int error = errno;
    close((int)process);
    return copy < 0 ? -error : (int)copy;
#else
    (void)pid, (void)descriptor;
    return -ENOSYS;
#endif
}

bool zg_call_waits_for_strangers(long number) { return number == SYS_accept || number == SYS_accept4; }

bool zg_call_is_futex(long number) { return number == SYS_futex; }

bool zg_call_is_restart(long number) { return number == SYS_restart_syscall; }
