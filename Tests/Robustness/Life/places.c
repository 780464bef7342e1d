// Scenarios of unusual process environments: closed and replaced descriptors, another root, another user, limits,
// seccomp filters.

#include "scenario.h"

#include <dirent.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>

// --- descriptors -----------------------------------------------------------------------------------------------------

static const char text[] = "the program's own\n";

static int own_file(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "own-%s", name);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, text, sizeof text) != sizeof text) say("FAILED: cannot write");
    return file;
}

// Calls `give_away` in a child with a file of the program. After the child's end, checks that the file contains only
// the program's own bytes.
static void with_own_files(const char *name, void (*give_away)(int file)) {
    int wait[2];
    if (pipe(wait) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        give_away(own_file(name));
        MUST(work_with_blocks(200) == 0, "works without its descriptors");
        plant();
        _exit(0);
    }
    close(wait[1]);
    MUST(planted_well(status_of(child)), "a process that has given its descriptors away");
    char path[64], found[4096];
    snprintf(path, sizeof path, "own-%s", name);
    int file = open(path, O_RDONLY);
    ssize_t bytes = read(file, found, sizeof found);
    MUST(bytes == sizeof text && memcmp(found, text, sizeof text) == 0, "its file holds what it wrote");
    close(file);
    close(wait[0]);
}

static void everywhere(int file) {
    // Opens the program's file at every descriptor number below 1100, as if the process had many descriptors.
    for (int i = 0; i < 1100; i++)
        if (i != file) dup2(file, i);
}
static void close_range_all(int file) {
    dup2(file, 0);
    close_range(1, ~0u, 0);
    for (int i = 1; i < 40; i++) dup(0);
}
static void close_from(int file) {
    dup2(file, 0);
    closefrom(1);
    for (int i = 1; i < 1100; i++) dup(0);
}
static void close_each(int file) {
    dup2(file, 0);
    for (int i = 1, end = (int)sysconf(_SC_OPEN_MAX); i < end && i < 70000; i++) close(i);
    for (int i = 1; i < 5; i++) dup(0);
}
// Closes each descriptor that /proc lists and opens the program's file in its place.
static void close_listed(int file) {
    DIR *all = opendir("/proc/self/fd");
    int numbers[100], count = 0;
    for (struct dirent *entry; (entry = readdir(all)) && count < 100;)
        if (atoi(entry->d_name) != dirfd(all) && *entry->d_name != '.') numbers[count++] = atoi(entry->d_name);
    closedir(all);
    for (int i = 0; i < count; i++)
        if (numbers[i] != file) dup2(file, numbers[i]);
}
static void given_away(void) {
    // The runtime can reopen a report, because it has a path. So the report holds all findings.
    with_own_files("everywhere", everywhere);
    with_own_files("range", close_range_all);
    with_own_files("from", close_from);
    with_own_files("each", close_each);
    with_own_files("listed", close_listed);
}
// The same test with findings on standard error, which the program has replaced by its own file: findings are lost, and
// the file is unharmed.
static void given_away_unnamed(void) { given_away(); }

static void daemon_like(void) {
    int done[2];
    if (pipe(done) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork()) _exit(0);
        alarm(30);
        umask(0);
        if (chdir("/") != 0) _exit(1);
        for (int i = 0; i < 1100; i++)
            if (i != done[1]) close(i);
        open("/dev/null", O_RDWR);
        dup(0);
        dup(0);
        int wrong = work_with_blocks(300);
        char answer = wrong ? 'n' : 'y';
        if (write(done[1], &answer, 1) != 1) _exit(1);
        plant();
        _exit(0);
    }
    close(done[1]);
    char answer = 0, more;
    MUST(status_of(child) == 0, "the first half of a daemon ends");
    MUST(read(done[0], &answer, 1) == 1 && answer == 'y', "a daemon works");
    MUST(read(done[0], &more, 1) == 0, "and ends");
    close(done[0]);
}

static void counting(void) {
    // The low descriptor numbers are the same as without the library.
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(all));)
        if (*entry->d_name != '.' && atoi(entry->d_name) < 900) say("descriptor %s", entry->d_name);
    closedir(all);
    int first = open("/dev/null", O_RDONLY);
    say("the next is %d", first);
    close(first);
}

// --- roots, users, privileges ----------------------------------------------------------------------------------------

static void other_root(void) {
    mkdir("empty", 0700);
    MUST(chroot("empty") == 0 && chdir("/") == 0, "another root");
    MUST(work_with_blocks(300) == 0, "works where there is nothing");
    pid_t child = fork();
    if (child == 0) {
        int wrong = work_with_blocks(100);
        plant();
        _exit(wrong);
    }
    MUST(planted_well(status_of(child)), "a child where there is nothing");
}

static void other_user(void) {
    MUST(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0,
         "another user");
    say("dumpable: %d", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    MUST(work_with_blocks(300) == 0, "works as nobody");
    pid_t child = fork();
    if (child == 0) {
        int wrong = work_with_blocks(100);
        plant();
        _exit(wrong);
    }
    MUST(planted_well(status_of(child)), "a child as nobody");
}

static void nothing_to_see(void) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    MUST(work_with_blocks(300) == 0, "works where nobody may look");
    other_user();
}

static void no_privileges(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    MUST(syscall(SYS_capset, &header, none) == 0, "no capabilities");
    MUST(work_with_blocks(300) == 0, "works without privileges");
}

// --- limits ----------------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int resource;
    rlim_t value;
} limited[] = {
    {"no descriptors", RLIMIT_NOFILE, 4},      {"few descriptors", RLIMIT_NOFILE, 16},
    {"address space", RLIMIT_AS, 1 << 30},     {"data", RLIMIT_DATA, 64 << 20},
    {"stack", RLIMIT_STACK, 256 << 10},        {"files", RLIMIT_FSIZE, 1 << 20},
    {"locked memory", RLIMIT_MEMLOCK, 0},      {"processes", RLIMIT_NPROC, 1},
    {"signals waiting", RLIMIT_SIGPENDING, 0}, {"priorities", RLIMIT_NICE, 0},
};
static void limit(int i) {
    struct rlimit value = {limited[i].value, limited[i].value};
    MUST(setrlimit(limited[i].resource, &value) == 0, limited[i].name);
}
static void under_limit(void) {
    int i = atoi(getenv("LIFE_LIMIT"));
    if (limited[i].resource == RLIMIT_NPROC && setresuid(65534, 65534, 65534) != 0) say("FAILED: setresuid");
    MUST(work_with_blocks(500) == 0, limited[i].name);
    plant();
    _exit(0);
}
// Tests each limit, set while the program runs and set before it starts.
static void limits(void) {
    for (int i = 0; i < (int)(sizeof limited / sizeof *limited); i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        setenv("LIFE_LIMIT", number, 1);
        for (int before = 0; before < 2; before++) {
            // The limit includes the address space that the runtime reserved before. So libc's heap cannot allocate;
            // the guarded heap still can.
            bool space = limited[i].resource == RLIMIT_AS || limited[i].resource == RLIMIT_DATA;
            if (space && !before && (mode == quiet || mode == goes_on)) continue;
            pid_t child = fork();
            if (child == 0) {
                limit(i);
                if (before) run_self("under-limit");
                under_limit();
            }
            int status = status_of(child);
            if (!planted_well(status))
                say("FAILED: %s, set %s: status %x", limited[i].name, before ? "before" : "later", status);
        }
    }
}
static volatile int met;
static void until_met(int number) {
    (void)number;
    met = 1;
}
static void processor_time(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit value = {1, 20};
        signal(SIGXCPU, until_met);
        setrlimit(RLIMIT_CPU, &value);
        while (!met) work_with_blocks(10);
        plant();
        _exit(0);
    }
    MUST(planted_well(status_of(child)), "a limit on processor time");
}

// --- filters of system calls -----------------------------------------------------------------------------------------

#define DENY(name)                                                                                                     \
    { #name, SYS_##name }
static const struct {
    const char *name;
    int number;
} denied[] = {
    DENY(openat),          DENY(readlinkat), DENY(process_vm_readv), DENY(madvise),       DENY(mremap),
    DENY(memfd_create),    DENY(fchmod),     DENY(ftruncate),        DENY(fcntl),         DENY(fstat),
    DENY(pread64),         DENY(close),      DENY(prlimit64),        DENY(sysinfo),       DENY(sched_yield),
    DENY(prctl),           DENY(getpid),     DENY(gettid),           DENY(clock_gettime), DENY(sigaltstack),
    DENY(rt_sigtimedwait), DENY(tgkill),     DENY(close_range),      DENY(rt_sigaction),  DENY(rt_sigprocmask),
    DENY(mprotect),
};
enum { DENIED = sizeof denied / sizeof *denied };

// Installs a filter that denies call `which` of `denied`; if `which` is negative, all calls but a strict sandbox's.
static void filter(int which, unsigned answer) {
    struct sock_filter program[128];
    int at = 0;
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    if (which >= 0) {
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied[which].number, 0, 1);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    } else {
        static const int left[] = {SYS_read,   SYS_write, SYS_exit,  SYS_exit_group, SYS_rt_sigreturn, SYS_mmap,
                                   SYS_munmap, SYS_brk,   SYS_futex, SYS_mprotect,   SYS_madvise};
        // If `which` is -2: also deny mprotect and madvise, which a heap that has already grown does not need.
        int count = (int)(sizeof left / sizeof *left) - (which == -2 ? 2 : 0);
        for (int i = 0; i < count; i++) {
            program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)left[i], 0, 1);
            program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
        program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    }
    struct sock_fprog whole = {(unsigned short)at, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0) _exit(77);
}

// Runs a child in which a filter denies one system call, and checks how the child ends.
static void filtered(int which, unsigned answer, int before, const char *name) {
    pid_t child = fork();
    if (child == 0) {
        if (!before) work_with_blocks(20);
        filter(which, answer);
        if (before) run_self("filtered-program");
        int wrong = work_with_blocks(500);
        if (!wrong && denied[which].number != SYS_mprotect) plant(); // without mprotect the heap cannot grow
        else if (!wrong && mode == dies) raise(SIGSEGV);
        syscall(SYS_exit_group, wrong);
    }
    int status = status_of(child);
    if (!planted_well(status))
        say("FAILED: without %s, %s, answer %x: status %x", name, before ? "before" : "later", answer, status);
}
static void filtered_program(void) {
    int wrong = work_with_blocks(500);
    if (!wrong) plant();
    _exit(wrong);
}
static void filters_later(void) {
    const unsigned answers[] = {SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS};
    for (int i = 0; i < DENIED; i++) {
        filtered(i, answers[i % 2], 0, denied[i].name);
    }
}
static void filters_before(void) {
    const unsigned answers[] = {SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_ERRNO | EPERM};
    for (int i = 0; i < DENIED; i++) {
        // No program can start without these calls.
        if (denied[i].number == SYS_openat || denied[i].number == SYS_mprotect || denied[i].number == SYS_fstat ||
            denied[i].number == SYS_pread64 || denied[i].number == SYS_close)
            continue;
        filtered(i, answers[i % 2], 1, denied[i].name);
    }
}
// A strict sandbox, installed after initialization as sandboxed programs do. The heap has grown before.
static void strict(int which, unsigned answer, const char *name) {
    pid_t child = fork();
    if (child == 0) {
        work_with_blocks(1000);
        filter(which, answer);
        for (int i = 0; i < 3; i++)
            if (work_with_blocks(1000)) syscall(SYS_exit_group, 1);
        syscall(SYS_exit_group, 0);
    }
    int status = status_of(child);
    if (status != 0) say("FAILED: %s: status %x", name, status);
}
static void strict_sandbox(void) {
    strict(-1, SECCOMP_RET_ERRNO | EPERM, "a strict sandbox that refuses");
    strict(-2, SECCOMP_RET_ERRNO | EPERM, "a stricter sandbox that refuses");
    strict(-1, SECCOMP_RET_ERRNO | ENOSYS, "a strict sandbox that knows nothing");
}

const struct scenario scenarios[] = {
    {"given-away", given_away, "findings=6"},
    {"given-away-unnamed", given_away_unnamed, "findings=0 report=none says=zguard"},
    {"daemon", daemon_like, "findings=2"},
    {"counting", counting, ""},
    {"other-root", other_root, "findings=2"},
    {"other-user", other_user, "findings=2"},
    {"nothing-to-see", nothing_to_see, "findings=2"},
    {"no-privileges", no_privileges, ""},
    {"under-limit", under_limit, "modes=none"},
    {"limits", limits, "findings=1"},
    {"processor-time", processor_time, "findings=2"},
    {"filtered-program", filtered_program, "modes=none"},
    {"filters-later", filters_later, "findings=15 stacks=short"},
    {"filters-before", filters_before, "findings=12 stacks=short"},
    {"strict-sandbox", strict_sandbox, ""},
    {NULL, NULL, NULL},
};
