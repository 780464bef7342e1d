// System calls and C functions that Swift cannot call itself: variadic ones, those missing from Swift's C library
// module, and fork. No state except where noted; functions return 0 or more, or -errno, unless stated otherwise.

#ifndef ZG_SYSTEM_H
#define ZG_SYSTEM_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

// The version of the package.
const char *zg_system_version(void);

// The Swift version of the build, such as "6.3.1"; "" if the build did not set it.
const char *zg_system_swift_version(void);

// The demanglers of the C++ and Swift runtimes. Both return text allocated with malloc, or NULL.
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
char *swift_demangle(const char *name, size_t length, char *buffer, size_t *buffer_length, uint32_t flags);

char **zg_system_environment(void);

// The arguments of the process, terminated by NULL, and the path with which its program was executed (NULL if unknown).
// These functions work without /proc.
int zg_system_argument_count(void);
char **zg_system_arguments(void);
const char *zg_system_executed_path(void);

// Creates a memfd, closed on exec.
int zg_system_memfd(const char *name);
// Creates a memfd of sealed size with these contents, for other processes to map. Works despite a soft RLIMIT_FSIZE.
int zg_system_sealed_memfd(const char *name, const void *contents, size_t bytes);

// Atomic words in memory shared with another process.
uint32_t zg_system_load(const uint32_t *word);
void zg_system_store(uint32_t *word, uint32_t value);
uint32_t zg_system_increment(uint32_t *word);                // returns the new value
uint32_t zg_system_exchange(uint32_t *word, uint32_t value); // sequentially consistent; returns the old value
uint64_t zg_system_load_long(const uint64_t *word);
int zg_system_futex_wake(uint32_t *word); // not FUTEX_PRIVATE: the waiters are in another process

// Creates a Unix socket (SOCK_SEQPACKET) that listens at the path with these permissions; closed on exec, nonblocking.
int zg_system_listen(const char *path, mode_t mode);
// Accepts a connection; closed on exec, nonblocking. -EAGAIN if none is pending. `*sender` is the process that
// connected, as the kernel reports it (SO_PEERCRED); 0 if its PID namespace is not below the caller's.
int zg_system_accept(int listener, pid_t *sender);
// Receives the packet of a connection. Returns its size, which may exceed `count`; 0 if the sender closed without
// sending; -EAGAIN if the sender has not sent yet.
ssize_t zg_system_receive(int connection, void *bytes, size_t count);

// Futexes between threads of one process. The wait ends at a wake-up, after the timeout, or spuriously; at once if the
// word differs from `seen`.
void zg_system_futex_wait_private(const uint32_t *word, uint32_t seen, int64_t milliseconds);
void zg_system_futex_wake_private(const uint32_t *word);

// Starts a detached thread that blocks all signals except those of faults, such as SIGSEGV. Returns 0 or -errno.
int zg_system_start_thread(const char *name, void (*body)(void *), void *argument);
int zg_system_thread_id(void); // the kernel's thread id

// Creates a descriptor from which the signals of `mask` can be read (signalfd), closed on exec.
int zg_system_signal_descriptor(const sigset_t *mask);

struct zg_system_signal {
    int number;  // 0: none pending
    int by_user; // sent by a process, not by the kernel or the terminal
};
struct zg_system_signal zg_system_next_signal(int descriptor);

// Raises this process's limit on descriptors to `wanted`, or as far as allowed; never lowers it. Returns the resulting
// limit. zg_system_restore_descriptors restores the original limit; zg_system_spawn does so in the child.
uint64_t zg_system_raise_descriptors(uint64_t wanted);
void zg_system_restore_descriptors(void);

// Starts a program in a child that has the signal mask `mask` and the disposition `child_action` of SIGCHLD; everything
// else is inherited. Returns the child's pid, or -errno of fork or execve; a child whose execve failed is reaped.
// posix_spawn does not suffice: it can set a signal to default, but not to ignored. For single-threaded processes.
int zg_system_spawn(const char *path, char *const argv[], char *const envp[], const sigset_t *mask,
                    const struct sigaction *child_action);

// 1 if a process has the file open for writing, 0 if none has; -errno if the file system does not support leases, or
// the file is another user's. The descriptor must be open for reading only. For single-threaded processes.
int zg_system_has_writers(int descriptor);
// The result of zg_system_reap: whether the child has ended, its status, and values that are read before it is reaped.
struct zg_system_end {
    int is_ended;      // 0: running, or not a child of this process
    int status;        // as returned by waitpid
    int seccomp;       // SECCOMP_MODE_… of the child; -1: unknown
    uint64_t cpu_us;   // processor time that counts against RLIMIT_CPU; 0: unknown
    uint64_t cpu_soft; // RLIMIT_CPU of the child, in seconds; UINT64_MAX: none, or unknown
    uint64_t cpu_hard;
};
struct zg_system_end zg_system_reap(int pid);

// 1 if the file has capabilities that the kernel grants on exec, else 0.
int zg_system_has_file_capabilities(const char *path);

// Opens the file that an O_PATH descriptor refers to. A process of root opens it with the rights of this user and
// group, without supplementary groups; with root's rights if the kernel does not let the process give them up. Returns
// a descriptor or -errno.
int zg_system_open_handle(int handle, int flags, uid_t user, gid_t group);
// The seals of a memfd (F_GET_SEALS); -errno for any other file.
int zg_system_seals(int descriptor);
extern const int zg_system_seals_of_size; // F_SEAL_SHRINK and F_SEAL_GROW
// Rights that are checked, in addition to this process's own, when opening a file whose path another user has written.
enum zg_system_rights {
    ZG_SYSTEM_OWN,
    ZG_SYSTEM_OF_USER,     // rights of the given user; a process of root opens the file as that user
    ZG_SYSTEM_OF_EVERYBODY // only files that everyone may read
};
// Opens a regular file for reading. Resolves the path into `resolved` (PATH_MAX bytes), and opens the result without
// following links. -EINVAL: not a regular file, or on a pseudo file system (/proc, /sys).
int zg_system_open_named(const char *path, enum zg_system_rights rights, uid_t user, char *resolved);

// O_PATH, which headers define for _GNU_SOURCE only.
extern const int zg_system_open_path;
// Makes up to 64 system calls in children, with arguments that have no effect. Sets bit i of `*passing` unless a
// seccomp filter kills the process for the i-th call. The filter may still make the call fail (SECCOMP_RET_ERRNO).
// Returns 0 or -errno.
int zg_system_try_calls(const int32_t *numbers, int count, uint64_t *passing);
// Whether a seccomp filter kills a process for a system call that inspects other processes (ptrace, pidfd_getfd).
int zg_system_tracing_kills(void);

// Feature probes of the kernel and the C library. zg_system_probe_…: 0 if available, else -errno, unless stated.
int zg_system_has_find_object(void);
int zg_system_probe_guard_pages(void);
// Whether shared memory can be mapped a second time and the second mapping guarded, as windows require (Linux 6.15).
int zg_system_probe_windows(void);
int zg_system_probe_vm_read(void);
// Hardware watchpoints that send a signal (perf_event_open, Linux 5.18). -EOPNOTSUPP on processors other than x86-64. A
// seccomp filter may kill the process for this call.
int zg_system_probe_watchpoints(void);
// Opens a performance event in a new thread, and keeps it open until this process ends. While no process has an event
// open, the kernel takes about 10 ms to open one; with this event open, guarded programs do not wait for that. A
// seccomp filter may kill the process for this call.
void zg_system_hold_event(void);
// The kernel's page size in bytes. The runtime supports 4 KiB only.
size_t zg_system_page_bytes(void);
// Width in bits of the addresses that the kernel gives to programs: 47 or 48 on most systems, 39 or 42 on small ones.
int zg_system_address_bits(void);
// 1 if the processor has masked vector loads (AVX-512), which are slow next to protected pages.
int zg_system_has_masked_loads(void);
uint64_t zg_system_ticks(void); // the clock of the runtime's zg_arch_ticks
// 1 if the processor has memory tagging and the kernel supports it for this process; 0 if the processor has none;
// -errno if the kernel lacks support.
int zg_system_probe_tags(void);
const char *zg_system_libc_version(void);

#endif
