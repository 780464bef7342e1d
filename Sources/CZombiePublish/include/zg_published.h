// Lists the published functions: all symbols that the preload library exports.
// The files of this target define them; a test compares the table with the library's dynamic symbols.

#ifndef ZG_PUBLISHED_H
#define ZG_PUBLISHED_H

// clang-format off
#define ZG_PUBLISHED(X)                                                                                                \
    /* C allocation */                                                                                                 \
    X(malloc) X(calloc) X(realloc) X(reallocarray) X(free) X(free_sized) X(free_aligned_sized)                         \
    X(memalign) X(aligned_alloc) X(posix_memalign) X(valloc) X(pvalloc)                                                \
    X(__libc_malloc) X(__libc_calloc) X(__libc_realloc) X(__libc_free) X(__libc_memalign) X(__libc_valloc) X(__libc_pvalloc) \
    X(malloc_usable_size) X(malloc_trim) X(mallinfo) X(mallinfo2) X(mallopt) X(malloc_stats) X(malloc_info)            \
    /* C++ operator new: plain, nothrow, aligned, both; then the same for arrays */                                    \
    X(_Znwm) X(_ZnwmRKSt9nothrow_t) X(_ZnwmSt11align_val_t) X(_ZnwmSt11align_val_tRKSt9nothrow_t)                      \
    X(_Znam) X(_ZnamRKSt9nothrow_t) X(_ZnamSt11align_val_t) X(_ZnamSt11align_val_tRKSt9nothrow_t)                      \
    /* C++ operator delete: plain, nothrow, sized, aligned, sized and aligned, aligned nothrow; then for arrays */     \
    X(_ZdlPv) X(_ZdlPvRKSt9nothrow_t) X(_ZdlPvm) X(_ZdlPvSt11align_val_t) X(_ZdlPvmSt11align_val_t)                    \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                                             \
    X(_ZdaPv) X(_ZdaPvRKSt9nothrow_t) X(_ZdaPvm) X(_ZdaPvSt11align_val_t) X(_ZdaPvmSt11align_val_t)                    \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t)                                                                             \
    /* signals: the runtime's handler stays first */                                                                   \
    X(sigaction) X(__sigaction) X(signal) X(ssignal) X(bsd_signal) X(sysv_signal) X(__sysv_signal) X(siginterrupt)     \
    X(sigaltstack) X(pthread_sigmask) X(sigprocmask)                                                                   \
    /* jumps: a jump waits until an interrupted call of the runtime is done (jumps.c) */                               \
    X(longjmp) X(_longjmp) X(siglongjmp) X(__longjmp_chk)                                                              \
    /* exits without atexit handlers: called in a fault handler, they first report the fault (ends.c) */               \
    X(_exit) X(_Exit) X(quick_exit)                                                                                    \
    /* threads: each gets an alternate signal stack before its start function runs */                                  \
    X(pthread_create)                                                                                                  \
    /* fork handlers: those of the runtime run last before a fork, and first after it */                               \
    X(__register_atfork)                                                                                               \
    /* memory locks, limits, advice: reserved address space and freed blocks are left out (memory.c) */                \
    X(setrlimit) X(setrlimit64) X(prlimit) X(prlimit64) X(mlockall) X(munlockall) X(mlock) X(mlock2) X(munlock) X(madvise)                  \
    /* the loader: no library may bind to libc past the runtime (RTLD_DEEPBIND) */                                     \
    X(dlopen) X(dlclose)                                                                                               \
    /* system calls with buffers: a buffer in a freed block is a finding (calls.c) */                                  \
    X(read) X(__read_chk) X(write) X(pread) X(pread64) X(__pread_chk) X(__pread64_chk) X(pwrite) X(pwrite64)           \
    X(readv) X(writev) X(preadv) X(preadv64) X(pwritev) X(pwritev64)                                                   \
    X(send) X(recv) X(__recv_chk) X(sendto) X(recvfrom) X(__recvfrom_chk) X(sendmsg) X(recvmsg)                        \
    /* libc's memory and string functions: freed blocks, and blocks that end too early, are findings (strings.c) */    \
    X(memcpy) X(memmove) X(memset) X(memcmp) X(bcmp) X(memchr) X(strlen) X(strcmp) X(strncmp) X(strchr) X(mempcpy)     \
    X(__memcpy_chk) X(__memmove_chk) X(__mempcpy_chk) X(__memset_chk) X(memrchr) X(strnlen) X(strdup) X(strndup)       \
    X(strcpy) X(__strcpy_chk) X(stpcpy) X(__stpcpy_chk) X(strcat) X(__strcat_chk) X(strncpy) X(__strncpy_chk)          \
    X(stpncpy) X(__stpncpy_chk) X(strncat) X(__strncat_chk) X(strcasecmp) X(strncasecmp) X(strrchr) X(strchrnul)       \
    X(strstr) X(strtol) X(strtoul) X(strtoll) X(strtoull) X(strtod) X(strtof) X(strtold) X(atoi) X(atol) X(atoll)      \
    X(atof) X(wcslen) X(wcscpy) X(wmemcpy) X(wmemmove) X(wmemset) X(__isoc23_strtol) X(__isoc23_strtoul)               \
    X(__isoc23_strtoll) X(__isoc23_strtoull)                                                                           \
    /* waits for events: a thread that runs for long between two waits stalls its event loop (waits.c) */              \
    X(poll) X(__poll_chk) X(ppoll) X(__ppoll_chk) X(select) X(pselect) X(epoll_wait) X(epoll_pwait) X(epoll_pwait2)    \
    /* seccomp filters: the runtime makes no system call that they forbid (filters.c) */                               \
    X(prctl) X(syscall)                                                                                                \
    /* processes created without fork handlers (forks.c) */                                                            \
    X(_Fork) X(clone)                                                                                                \
    /* user changes: files that the new user may not open are replaced (users.c) */                                    \
    X(setuid) X(setreuid) X(setresuid)                                                                                 \
    /* executing programs: one that cannot load the library gets no LD_PRELOAD entry for it (exec.c) */                \
    X(execve) X(execv) X(execvp) X(execvpe) X(execl) X(execlp) X(execle) X(fexecve) X(execveat)                        \
    X(posix_spawn) X(posix_spawnp)                                                                                     \
    /* the runtime's API for code in the same process (zg_api.h) */                                                    \
    X(zg_api)
// clang-format on

#endif
