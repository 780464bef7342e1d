// Makes system calls of the runtime fail, in a test build of the library (inject.h). Any context; no lock.
//
// ZG_FAULT holds rules "kind:action:first:how", separated by ','. `kind` is a name in the list below, or "*" for all
// but "never" and "libc-memory". `action` is the errno of the failing call, or "half" or "one": transfer half of the
// bytes, or one byte; "half+28": half of the bytes the first time, then errno 28. `first` is the number of the first
// affected call of its kind, from 1. `how`: "once", "ever", "xN" (N calls in all), or a number n (then every n-th).
// ZG_FAULT_FILE names a file of FILE_BYTES zeros in which all processes together count calls and faults; without it
// each process counts its own. At exit each process writes its statistics to ZG_FAULT_FILE.PID.

#define _GNU_SOURCE
#undef zg_arch_syscall
#undef dlsym
#undef pthread_key_create
#undef pthread_setspecific

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "faults/fault.h"
#include "heap/foreign.h"
#include "platform/text.h"
#include "settings/stats.h"

#define KINDS(X)                                                                                                       \
    X(other, "other")                                                                                                  \
    X(never, "never") /* never made to fail: exit_group, kill, tgkill, exec, and most prctl calls */                   \
    X(mmap_reserve, "mmap-reserve")                                                                                    \
    X(mmap_table, "mmap-table")                                                                                        \
    X(mmap_retire, "mmap-retire")                                                                                      \
    X(mmap_ask, "mmap-ask")                                                                                            \
    X(mmap_shared, "mmap-shared")                                                                                      \
    X(mmap_private, "mmap-private")                                                                                    \
    X(munmap, "munmap")                                                                                                \
    X(mremap, "mremap")                                                                                                \
    X(mprotect_open, "mprotect-open")                                                                                  \
    X(mprotect_close, "mprotect-close")                                                                                \
    X(madvise_guard, "madvise-guard")                                                                                  \
    X(madvise_unguard, "madvise-unguard")                                                                              \
    X(madvise_discard, "madvise-discard")                                                                              \
    X(madvise_dump, "madvise-dump")                                                                                    \
    X(madvise_huge, "madvise-huge")                                                                                    \
    X(madvise_fork, "madvise-fork")                                                                                    \
    X(madvise_populate, "madvise-populate")                                                                            \
    X(madvise_remove, "madvise-remove")                                                                                \
    X(mincore, "mincore")                                                                                              \
    X(read_memory, "process_vm_readv")                                                                                 \
    X(write, "write")                                                                                                  \
    X(write_page, "write-page")                                                                                        \
    X(open_append, "open-append")                                                                                      \
    X(open_read, "open-read")                                                                                          \
    X(read, "read")                                                                                                    \
    X(pread, "pread")                                                                                                  \
    X(readlink, "readlink")                                                                                            \
    X(close, "close")                                                                                                  \
    X(fstat, "fstat")                                                                                                  \
    X(fcntl, "fcntl")                                                                                                  \
    X(close_range, "close_range")                                                                                      \
    X(memfd_create, "memfd_create")                                                                                    \
    X(fchmod, "fchmod")                                                                                                \
    X(ftruncate, "ftruncate")                                                                                          \
    X(getpid, "getpid")                                                                                                \
    X(gettid, "gettid")                                                                                                \
    X(get_name, "prctl-get-name")                                                                                      \
    X(set_name, "prctl-set-name")                                                                                      \
    X(clock_gettime, "clock_gettime")                                                                                  \
    X(prlimit, "prlimit")                                                                                              \
    X(sysinfo, "sysinfo")                                                                                              \
    X(sched_yield, "sched_yield")                                                                                      \
    X(futex_wait, "futex-wait")                                                                                        \
    X(futex_wake, "futex-wake")                                                                                        \
    X(mask_block, "sigprocmask-block")                                                                                 \
    X(mask_set, "sigprocmask-set")                                                                                     \
    X(sigtimedwait, "sigtimedwait")                                                                                    \
    X(sigpending, "sigpending")                                                                                        \
    X(sigaction_get, "sigaction-get")                                                                                  \
    X(ppoll, "ppoll")                                                                                                  \
    X(sigaltstack, "sigaltstack")                                                                                      \
    X(brk, "brk")                                                                                                      \
    X(uname, "uname")                                                                                                  \
    X(getrusage, "getrusage")                                                                                          \
    X(watch_open, "perf_event_open")                                                                                   \
    X(watch_id, "perf-id")                                                                                             \
    X(watch_move, "perf-move")                                                                                         \
    X(sigaction, "sigaction")                                                                                          \
    X(pthread_create, "pthread_create")                                                                                \
    X(key_create, "pthread_key_create")                                                                                \
    X(setspecific, "pthread_setspecific")                                                                              \
    X(atfork, "pthread_atfork")                                                                                        \
    X(libc_memory, "libc-memory")

enum kind {
#define ENTRY(name, text) kind_##name,
    KINDS(ENTRY)
#undef ENTRY
        kind_count
};
static const char *const names[] = {
#define ENTRY(name, text) text,
    KINDS(ENTRY)
#undef ENTRY
};

enum { RULES = 4, ALL = -1, FILE_BYTES = 8192 };
struct count {
    char name[32];
    uint64_t calls, faults;
};
static struct count own_counts[kind_count], *counts = own_counts;
_Static_assert(sizeof own_counts <= FILE_BYTES, "the file has two pages");

static struct {
    int kind;         // an enum kind, or ALL
    int error, later; // later: errno after the first use of this rule; 0: repeat the action
    enum { fails, halves, ones } action;
    uint64_t first, last, every;
    uint32_t applied;
} rules[RULES];
static int rule_count;
static char file_path[512];

// --- rules in the environment ----------------------------------------------------------------------------------------

// Not inlined: the test checks that no other function contains a system call instruction.
static __attribute__((noinline, optnone)) long call(long number, long a, long b, long c, long d, long e, long f) {
    return zg_arch_syscall(number, a, b, c, d, e, f);
}

static const char *number_at(const char *at, int *value) {
    for (*value = 0; *at >= '0' && *at <= '9'; at++) *value = *value * 10 + (*at - '0');
    return at;
}

static bool begins(const char *at, const char *word) {
    while (*word && *at == *word) at++, word++;
    return !*word;
}

static void bad(void) { __builtin_trap(); } // Ends the process, because an invalid rule is a mistake in the test.

static const char *after(const char *at, char separator) {
    if (*at != separator) bad();
    return at + 1;
}

static void read_rules(const char *at) {
    while (*at) {
        if (rule_count == RULES) bad();
        __typeof__(rules[0]) *rule = &rules[rule_count];
        uint64_t length = 0;
        while (at[length] && at[length] != ':') length++;
        rule->kind = kind_count;
        if (*at == '*') rule->kind = ALL;
        for (int kind = 0; kind < kind_count; kind++)
            if (begins(at, names[kind]) && !names[kind][length]) rule->kind = kind;
        if (rule->kind == kind_count) bad();
        at = after(at + length, ':');
        if (begins(at, "half")) rule->action = halves, at += 4;
        else if (begins(at, "one")) rule->action = ones, at += 3;
        else at = number_at(at, &rule->error);
        if (*at == '+') at = number_at(at + 1, &rule->later);
        int first, every = 1, times = 0;
        at = number_at(after(at, ':'), &first);
        at = after(at, ':');
        if (begins(at, "once")) times = 1, at += 4;
        else if (*at == 'x') at = number_at(at + 1, &times);
        else if (begins(at, "ever")) at += 4;
        else at = number_at(at, &every);
        rule->first = (uint64_t)first;
        rule->last = times ? (uint64_t)(first + times - 1) : UINT64_MAX;
        rule->every = (uint64_t)every;
        rule_count++;
        if (*at) at = after(at, ',');
    }
}

static void map_file(void) {
    int file = (int)call(SYS_openat, AT_FDCWD, (long)file_path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (file < 0) return;
    long shared = call(SYS_mmap, 0, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    call(SYS_close, file, 0, 0, 0, 0, 0);
    if (shared < 0 && shared > -4096) bad();
    counts = (struct count *)shared;
    for (int i = 0; i < kind_count; i++) zg_string_copy(counts[i].name, names[i], sizeof counts[i].name);
}

// Reads the rules from /proc/self/environ, because the runtime calls this before libc has initialized `environ`.
static void begin(void) {
    static bool begun;
    static char environment[64 << 10];
    if (begun) return;
    begun = true;
    int file = (int)call(SYS_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    uint64_t bytes = 0;
    for (long got; file >= 0 && (got = call(SYS_read, file, (long)environment + (long)bytes,
                                            (long)(sizeof environment - 1 - bytes), 0, 0, 0)) > 0;)
        bytes += (uint64_t)got;
    call(SYS_close, file, 0, 0, 0, 0, 0);
    for (const char *at = environment; at < environment + bytes; at += zg_string_length(at) + 1) {
        if (begins(at, "ZG_FAULT_FILE=")) zg_string_copy(file_path, at + 14, sizeof file_path);
        if (begins(at, "ZG_FAULT=")) read_rules(at + 9);
    }
    if (file_path[0]) map_file();
}

// --- calls -----------------------------------------------------------------------------------------------------------

static enum kind kind_of_mmap(long protection, long flags) {
    if (flags & MAP_SHARED) return kind_mmap_shared;
    if (protection == PROT_NONE) return flags & MAP_FIXED ? kind_mmap_retire : kind_mmap_reserve;
    if (flags & MAP_FIXED) return kind_mmap_private;
    return flags & MAP_NORESERVE ? kind_mmap_table : kind_mmap_ask;
}

static enum kind kind_of_madvise(long advice) {
    switch (advice) {
    case 102: return kind_madvise_guard;
    case 103: return kind_madvise_unguard;
    case MADV_DONTNEED: return kind_madvise_discard;
    case MADV_DONTDUMP:
    case MADV_DODUMP: return kind_madvise_dump;
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE: return kind_madvise_huge;
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK: return kind_madvise_fork;
    case 22: return kind_madvise_populate;
    case MADV_REMOVE: return kind_madvise_remove;
    default: return kind_other;
    }
}

static enum kind kind_of(long number, long a, long b, long c, long d) {
    switch (number) {
    case SYS_mmap: return kind_of_mmap(c, d);
    case SYS_munmap: return kind_munmap;
    case SYS_mremap: return kind_mremap;
    case SYS_mincore: return kind_mincore;
    case SYS_mprotect: return c == PROT_NONE ? kind_mprotect_close : kind_mprotect_open;
    case SYS_madvise: return kind_of_madvise(c);
    case SYS_process_vm_readv: return kind_read_memory;
    case SYS_write: return c == ZG_STATS_BYTES ? kind_write_page : kind_write;
    case SYS_openat: return c & O_APPEND ? kind_open_append : kind_open_read;
    case SYS_read: return kind_read;
    case SYS_pread64: return kind_pread;
    case SYS_readlinkat: return kind_readlink;
    case SYS_close: return kind_close;
    case SYS_newfstatat: // of a program before exec
    case SYS_faccessat:
    case SYS_fstat: return kind_fstat;
    case SYS_fcntl: return kind_fcntl;
    case SYS_close_range: return kind_close_range;
    case SYS_memfd_create: return kind_memfd_create;
    case SYS_fchmod: return kind_fchmod;
    case SYS_ftruncate: return kind_ftruncate;
    case SYS_getpid: return kind_getpid;
    case SYS_gettid: return kind_gettid;
    case SYS_prctl: return a == PR_SET_NAME ? kind_set_name : a == PR_GET_NAME ? kind_get_name : kind_never;
    case SYS_clock_gettime: return kind_clock_gettime;
    case SYS_prlimit64: return kind_prlimit;
    case SYS_sysinfo: return kind_sysinfo;
    case SYS_sched_yield: return kind_sched_yield;
    case SYS_futex: return (b & FUTEX_CMD_MASK) == FUTEX_WAKE ? kind_futex_wake : kind_futex_wait;
    case SYS_rt_sigprocmask: return a == SIG_SETMASK ? kind_mask_set : kind_mask_block;
    case SYS_rt_sigtimedwait: return kind_sigtimedwait;
    case SYS_rt_sigpending: return kind_sigpending;
    case SYS_rt_sigaction: return kind_sigaction_get;
    case SYS_ppoll: return kind_ppoll;
    case SYS_sigaltstack: return kind_sigaltstack;
    case SYS_brk: return kind_brk;
    case SYS_uname: return kind_uname;
    case SYS_getrusage: return kind_getrusage;
    case SYS_perf_event_open: return kind_watch_open;
    case SYS_ioctl: return b == (long)PERF_EVENT_IOC_MODIFY_ATTRIBUTES ? kind_watch_move : kind_watch_id;
    case SYS_execve: // the runtime forwards these calls of the program, like prctl calls with other options
    case SYS_execveat:
    case SYS_tgkill:
    case SYS_kill: // the runtime tests with it whether zguard is alive, but only during a crash
    case SYS_exit_group: return kind_never;
    default: return kind_other;
    }
}

// Counts a call of this kind; returns the index of the rule to apply, or -1.
static int rule_for(enum kind kind) {
    begin();
    uint64_t number = __atomic_add_fetch(&counts[kind].calls, 1, __ATOMIC_RELAXED);
    if (kind == kind_never) return -1;
    for (int i = 0; i < rule_count; i++) {
        if (rules[i].kind != (int)kind && (rules[i].kind != ALL || kind == kind_libc_memory)) continue;
        if (number < rules[i].first || number > rules[i].last || (number - rules[i].first) % rules[i].every) continue;
        __atomic_fetch_add(&counts[kind].faults, 1, __ATOMIC_RELAXED);
        return i;
    }
    return -1;
}

// Returns the errno with which a libc function must fail, or 0.
static int error_for(enum kind kind) {
    int rule = rule_for(kind);
    return rule < 0 ? 0 : rules[rule].error;
}

static long shortened(enum kind kind, int rule, long bytes) {
    bool has_bytes = kind == kind_write || kind == kind_write_page || kind == kind_read || kind == kind_pread;
    if (!has_bytes || bytes < 2) return bytes;
    return rules[rule].action == ones ? 1 : bytes / 2;
}

static void take_libcs_memory(void);

long zg_inject_syscall(long number, long a, long b, long c, long d, long e, long f) {
    take_libcs_memory();
    enum kind kind = kind_of(number, a, b, c, d);
    int rule = rule_for(kind);
    if (rule < 0) return call(number, a, b, c, d, e, f);
    bool again = __atomic_fetch_add(&rules[rule].applied, 1, __ATOMIC_RELAXED) != 0;
    if (again && rules[rule].later) return -rules[rule].later;
    if (rules[rule].action == fails) {
        // As in the kernel: close frees the descriptor even if it fails, and mremap may have unmapped its target.
        if (kind == kind_close) call(number, a, b, c, d, e, f);
        if (kind == kind_mremap && d & MREMAP_FIXED && rules[rule].error == ENOMEM) call(SYS_munmap, e, c, 0, 0, 0, 0);
        return -rules[rule].error;
    }
    if (kind == kind_read_memory) {
        // Read only the first bytes, as if the memory behind them were not readable.
        struct iovec local = *(const struct iovec *)b;
        if (local.iov_len > 1) local.iov_len = rules[rule].action == ones ? 1 : local.iov_len / 2;
        return call(number, a, (long)&local, c, d, e, f);
    }
    return call(number, a, b, shortened(kind, rule, c), d, e, f);
}

// --- libc functions --------------------------------------------------------------------------------------------------

static int (*libc_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*libc_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

// The program's calls pass here, too. Only calls that install the runtime's fault handler or query SIGSEGV may fail.
static int inject_sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    bool own = action ? (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == zg_fault_handler : signal == SIGSEGV;
    int error = own ? error_for(kind_sigaction) : 0;
    if (!error) return libc_sigaction(signal, action, old);
    errno = error;
    return -1;
}

// Fails only for the maintenance thread, recognized by its stack size of 256 KiB.
static int inject_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                 void *context) {
    size_t bytes = 0;
    if (attributes) pthread_attr_getstacksize(attributes, &bytes);
    int error = bytes == 256 << 10 ? error_for(kind_pthread_create) : 0;
    return error ? error : libc_pthread_create(thread, attributes, start, context);
}

// Fails only for the runtime's own handlers, which are registered without a library handle.
static int (*libc_register_atfork)(void (*)(void), void (*)(void), void (*)(void), void *);
static int inject_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    int error = library ? 0 : error_for(kind_atfork);
    return error ? error : libc_register_atfork(prepare, parent, child, library);
}

void *zg_inject_dlsym(void *handle, const char *symbol) {
    void *found = dlsym(handle, symbol);
    if (zg_string_equal(symbol, "sigaction")) {
        libc_sigaction = (__typeof__(libc_sigaction))found;
        return (void *)inject_sigaction;
    }
    if (zg_string_equal(symbol, "pthread_create")) {
        libc_pthread_create = (__typeof__(libc_pthread_create))found;
        return (void *)inject_pthread_create;
    }
    if (zg_string_equal(symbol, "__register_atfork")) {
        libc_register_atfork = (__typeof__(libc_register_atfork))found;
        return (void *)inject_atfork;
    }
    return found;
}

int zg_inject_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    int error = error_for(kind_key_create);
    return error ? error : pthread_key_create(key, destructor);
}

int zg_inject_setspecific(pthread_key_t key, const void *value) {
    int error = error_for(kind_setspecific);
    return error ? error : pthread_setspecific(key, value);
}

static bool refuses(void) {
    if (!error_for(kind_libc_memory)) return false;
    errno = ENOMEM;
    return true;
}
static struct zg_next libc;
static void *inject_malloc(size_t size) { return refuses() ? NULL : libc.malloc(size); }
static void *inject_calloc(size_t count, size_t size) { return refuses() ? NULL : libc.calloc(count, size); }
static void *inject_realloc(void *block, size_t size) { return refuses() ? NULL : libc.realloc(block, size); }
static void *inject_memalign(size_t alignment, size_t size) {
    return refuses() ? NULL : libc.memalign(alignment, size);
}

// Replaces the pointers through which the runtime calls libc's heap, once the runtime has set them.
static void take_libcs_memory(void) {
    if (libc.malloc || !zg_libc.malloc) return;
    libc = zg_libc;
    zg_libc.malloc = zg_next.malloc = inject_malloc;
    zg_libc.calloc = zg_next.calloc = inject_calloc;
    zg_libc.realloc = zg_next.realloc = inject_realloc;
    zg_libc.memalign = zg_next.memalign = inject_memalign;
}

// --- the end ---------------------------------------------------------------------------------------------------------

static void write_statistics(void) {
    begin();
    if (!file_path[0]) return;
    char path[sizeof file_path + 32];
    struct zg_text text;
    zg_text_init(&text, path, sizeof path);
    zg_text_string(&text, file_path);
    zg_text_char(&text, '.');
    zg_text_decimal(&text, (uint64_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    int file = (int)call(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600, 0, 0);
    call(SYS_write, file, (long)zg_stats, sizeof *zg_stats, 0, 0, 0);
    call(SYS_close, file, 0, 0, 0, 0, 0);
}

// Destructors run from high to low numbers. The runtime's has 101, the lowest that compilers permit, so it runs first.
__attribute__((section(".fini_array.00100"), used)) static void (*const at_end)(void) = write_statistics;
