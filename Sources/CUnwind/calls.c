// Names blocking system calls, and tells whether a ptrace stop makes them return early (signal(7), "Interruption of
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

// zg_call_restarts: either the call ignores signals, or the kernel restarts it, because its code returns ERESTARTSYS or
// a similar error that programs never see. The effect on zg_call_reads, zg_call_writes and zg_call_connects depends on
// the file, as the header describes. Calls that are not listed may return EINTR or a partial result.
static const struct {
    uint16_t number;
    uint8_t stop; // enum zg_call_stop
} stops[] = {
    {SYS_read, zg_call_reads},
    {SYS_readv, zg_call_reads},
    {SYS_pread64, zg_call_reads},
    {SYS_preadv, zg_call_reads},
    {SYS_recvfrom, zg_call_reads},
    {SYS_recvmsg, zg_call_reads},
    {SYS_accept, zg_call_reads},
    {SYS_accept4, zg_call_reads},
    {SYS_write, zg_call_writes},
    {SYS_writev, zg_call_writes},
    {SYS_pwrite64, zg_call_writes},
    {SYS_pwritev, zg_call_writes},
    {SYS_connect, zg_call_connects},
#ifdef SYS_poll
    {SYS_poll, zg_call_restarts},
    {SYS_select, zg_call_restarts},
    {SYS_open, zg_call_restarts},
    {SYS_stat, zg_call_restarts},
    {SYS_unlink, zg_call_restarts},
    {SYS_rename, zg_call_restarts},
    {SYS_pause, zg_call_restarts},
#endif
    {SYS_ppoll, zg_call_restarts},
    {SYS_pselect6, zg_call_restarts},
    {SYS_openat, zg_call_restarts},
    {SYS_close, zg_call_restarts},
    {SYS_fsync, zg_call_restarts},
    {SYS_fdatasync, zg_call_restarts},
    {SYS_sync, zg_call_restarts},
    {SYS_syncfs, zg_call_restarts},
    {SYS_sync_file_range, zg_call_restarts},
    {SYS_ftruncate, zg_call_restarts},
    {SYS_flock, zg_call_restarts},
    {SYS_fcntl, zg_call_restarts},
    {SYS_getdents64, zg_call_restarts},
    {SYS_statx, zg_call_restarts},
    {SYS_newfstatat, zg_call_restarts},
    {SYS_unlinkat, zg_call_restarts},
    {SYS_renameat2, zg_call_restarts},
    {SYS_mkdirat, zg_call_restarts},
    {SYS_futex, zg_call_restarts},
    {SYS_restart_syscall, zg_call_restarts},
    {SYS_nanosleep, zg_call_restarts},
    {SYS_clock_nanosleep, zg_call_restarts},
    {SYS_wait4, zg_call_restarts},
    {SYS_waitid, zg_call_restarts},
    {SYS_mmap, zg_call_restarts},
    {SYS_munmap, zg_call_restarts},
    {SYS_mprotect, zg_call_restarts},
    {SYS_msync, zg_call_restarts},
    {SYS_mremap, zg_call_restarts},
    {SYS_rt_sigsuspend, zg_call_restarts},
    {SYS_msgrcv, zg_call_restarts},
    {SYS_msgsnd, zg_call_restarts},
    {SYS_mq_timedreceive, zg_call_restarts},
    {SYS_mq_timedsend, zg_call_restarts},
    {SYS_clone, zg_call_restarts},
};

enum zg_call_stop zg_call_when_stopped(long number) {
    for (uint32_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        if (stops[i].number == number) return (enum zg_call_stop)stops[i].stop;
    return zg_call_ends;
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

bool zg_call_accepts_clients(long number) { return number == SYS_accept || number == SYS_accept4; }

bool zg_call_is_futex(long number) { return number == SYS_futex; }

bool zg_call_is_restart(long number) { return number == SYS_restart_syscall; }
