// System calls and C functions that Swift cannot call itself: variadic ones, those that the C library module leaves out,
// and a fork. No state; functions return a result of 0 or more, or -errno, where nothing else is said.

#ifndef ZG_SYSTEM_H
#define ZG_SYSTEM_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

// The version that the package is built as.
const char *zg_system_version(void);

// The Swift that this was built with, such as "6.3.1"; "" where the build does not say.
const char *zg_system_swift_version(void);

// The demanglers of the C++ and the Swift runtime. Both return malloc'ed text or NULL.
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
char *swift_demangle(const char *name, size_t length, char *buffer, size_t *buffer_length, uint32_t flags);

char **zg_system_environment(void);

// The arguments of the process, NULL behind the last one, and the path of its program as it was executed (NULL: not told). Neither needs /proc.
int zg_system_argument_count(void);
char **zg_system_arguments(void);
const char *zg_system_executed_path(void);

// An anonymous file of this name, closed on exec.
int zg_system_memfd(const char *name);
// The same with these contents, for other processes to map: nobody can change its size, whatever limit on files there is here.
int zg_system_sealed_memfd(const char *name, const void *contents, size_t bytes);

// Words of memory shared with another process.
uint32_t zg_system_load(const uint32_t *word);
void zg_system_store(uint32_t *word, uint32_t value);
uint32_t zg_system_increment(uint32_t *word); // returns the new value
uint32_t zg_system_exchange(uint32_t *word,
                            uint32_t value); // before everything that follows, for all to see; returns the old value
uint64_t zg_system_load_long(const uint64_t *word);
int zg_system_futex_wake(uint32_t *word); // not FUTEX_PRIVATE: the waiters are in another process

// A Unix socket that listens at the path, with these permissions (SOCK_SEQPACKET, closed on exec, never blocks).
int zg_system_listen(const char *path, mode_t mode);
// Accepts a connection (closed on exec, never blocks). -EAGAIN where nobody has connected. `*sender` is the process that
// connected, as the kernel says (SO_PEERCRED); 0: of a PID namespace that is not below this one's.
int zg_system_accept(int listener, pid_t *sender);
// Takes the packet of a connection. Returns its bytes, which may be more than `count`; 0 where its sender closed without
// one; -EAGAIN where the sender has not sent yet.
ssize_t zg_system_receive(int connection, void *bytes, size_t count);

// The same between threads of one process. Waiting ends when the word is no longer `seen`, and now and then without reason.
void zg_system_futex_wait_private(const uint32_t *word, uint32_t seen, int64_t milliseconds);
void zg_system_futex_wake_private(const uint32_t *word);

// Starts a detached thread that the program's signals are not delivered to. Returns 0 or -errno.
int zg_system_start_thread(const char *name, void (*body)(void *), void *argument);
int zg_system_thread_id(void); // the kernel's

// A descriptor from which the signals of `mask` can be read, closed on exec.
int zg_system_signal_descriptor(const sigset_t *mask);

struct zg_system_signal {
    int number;  // 0: none pending
    int by_user; // sent by a process, not by the kernel or the terminal
};
struct zg_system_signal zg_system_next_signal(int descriptor);

// Raises this process's limit on descriptors to `wanted`, or as far as it may be. Returns what it is then. zg_system_restore_descriptors, and the
// child of zg_system_spawn, have the limit of before.
uint64_t zg_system_raise_descriptors(uint64_t wanted);
void zg_system_restore_descriptors(void);

// Starts a program in a child that has the signal mask `mask` and the disposition `child_action` of SIGCHLD; everything
// else is inherited. Returns the child's pid; an error of execve is reported here as well, and the child is gone then.
// posix_spawn cannot do it: it can make a signal default, but not ignored. For processes of one thread.
int zg_system_spawn(const char *path, char *const argv[], char *const envp[], const sigset_t *mask,
                    const struct sigaction *child_action);

// 1 where some process has the file open for writing, 0 where none has; -errno where the file system does not know, or the file is another
// user's. For processes of one thread; the descriptor is open for reading alone.
int zg_system_has_writers(int descriptor);
// What the kernel knows of a child that has ended, before and with its status.
struct zg_system_end {
    int is_ended;      // 0: it runs, or is somebody else's to wait for
    int status;        // as waitpid gives it
    int seccomp;       // SECCOMP_MODE_… that it was under; -1: not known
    uint64_t cpu_us;   // processor time that counts against its limits; 0: not known
    uint64_t cpu_soft; // its limits on processor time in seconds; UINT64_MAX: none, or not known
    uint64_t cpu_hard;
};
struct zg_system_end zg_system_reap(int pid);

// 1 where the file has capabilities that the kernel grants on exec, else 0.
int zg_system_has_file_capabilities(const char *path);

// Opens the file that an O_PATH descriptor stands for. Root opens it with the rights of this user and group, without
// supplementary groups, where the kernel lets it give up its own. Returns a descriptor or a negative error number.
int zg_system_open_handle(int handle, int flags, uid_t user, gid_t group);
// The seals of a memfd (F_GET_SEALS); a negative error number for any other file.
int zg_system_seals(int descriptor);
extern const int zg_system_seals_of_size; // F_SEAL_SHRINK and F_SEAL_GROW
// Whose rights count, besides this process's, when a file is opened whose name somebody else has written.
enum zg_system_rights {
    ZG_SYSTEM_OWN,
    ZG_SYSTEM_OF_USER,     // those of that user; root's process opens it as that user
    ZG_SYSTEM_OF_EVERYBODY // only what everybody may read
};
// Opens a regular file for reading. The path is resolved, `resolved` (PATH_MAX bytes) gets the result, and that is opened without following
// links. -EINVAL: it is no regular file, or one that the kernel makes up (/proc, /sys).
int zg_system_open_named(const char *path, enum zg_system_rights rights, uid_t user, char *resolved);

// O_PATH, which only GNU's headers name.
extern const int zg_system_open_path;
// Makes these system calls in children, with arguments that do nothing, and sets bit i of `*passing` where a filter (seccomp) does not end the process
// for the i-th: it may refuse it. 0, or a negative error number. At most 64.
int zg_system_try_calls(const int32_t *numbers, int count, uint64_t *passing);
// Whether a filter ends who stops the threads of others (ptrace, pidfd_getfd).
int zg_system_tracing_kills(void);

// Probes of what the kernel and the C library offer.
int zg_system_has_find_object(void);
int zg_system_probe_guard_pages(void);
// Shared memory can be mapped again and guarded there, as windows are (Linux 6.15): 0 or a negative errno.
int zg_system_probe_windows(void);
int zg_system_probe_vm_read(void);
// The kernel's pages, in bytes; the runtime is made for those of 4 KiB.
size_t zg_system_page_bytes(void);
// Bits of the addresses that the kernel gives to programs: 47 or 48 on most systems, 39 or 42 on small ones.
int zg_system_address_bits(void);
// 1: the processor has masked vector loads (AVX-512), which are slow beside protected pages.
int zg_system_has_masked_loads(void);
uint64_t zg_system_ticks(void); // of the clock that the runtime reads (zg_arch_ticks)
// 1: the processor has tags of memory, and the kernel checks them for this process; 0: it has none; or a negative errno of the kernel's.
int zg_system_probe_tags(void);
const char *zg_system_libc_version(void);

#endif
