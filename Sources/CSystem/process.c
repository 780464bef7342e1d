// Starts and reaps child processes, and gives access to environment, signals, limits and leases. Cold; takes no lock.

#include "zg_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

const char *zg_system_version(void) { return ZG_VERSION; }

// Set by scripts/build, because Swift code can compare the compiler's version (`#if compiler`) but not read it.
#ifndef ZG_SWIFT_VERSION
#define ZG_SWIFT_VERSION ""
#endif

const char *zg_system_swift_version(void) { return ZG_SWIFT_VERSION; }

const int zg_system_open_path = O_PATH;

char **zg_system_environment(void) { return environ; }

int zg_system_signal_descriptor(const sigset_t *mask) {
    int descriptor = signalfd(-1, mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

struct zg_system_signal zg_system_next_signal(int descriptor) {
    struct signalfd_siginfo info;
    ssize_t count;
    do count = read(descriptor, &info, sizeof info);
    while (count < 0 && errno == EINTR);
    if (count != sizeof info) return (struct zg_system_signal){0, 0};
    return (struct zg_system_signal){(int)info.ssi_signo, info.ssi_code <= 0};
}

// The seccomp mode of a child that has not been reaped; -1 if unknown.
static int seccomp_mode(int pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return -1;
    text[count] = 0;
    const char *line = strstr(text, "\nSeccomp:");
    return line ? atoi(line + sizeof "\nSeccomp:" - 1) : -1;
}

// The processor time of all threads of a process, as the kernel compares it with RLIMIT_CPU: in ticks, without the
// correction that getrusage and /proc apply. The clock id of a process's CPUCLOCK_PROF is ~pid << 3
// (include/linux/posix-timers.h). 0 if unreadable.
static uint64_t limited_cpu_us(int pid) {
    struct timespec time;
    if (clock_gettime((clockid_t)(~(unsigned)pid << 3), &time)) return 0;
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

struct zg_system_end zg_system_reap(int pid) {
    struct zg_system_end end = {.seccomp = -1, .cpu_soft = UINT64_MAX, .cpu_hard = UINT64_MAX};
    siginfo_t info = {.si_signo = 0};
    struct rlimit limit;
    // A tracer is also notified of stops, whatever options it passes to waitid: leave the stop of a traced thread to
    // the code that traces it.
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_signo != SIGCHLD) return end;
    if (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED && info.si_code != CLD_DUMPED) return end;
    end.seccomp = seccomp_mode(pid);
    if (!prlimit(pid, RLIMIT_CPU, NULL, &limit)) {
        if (limit.rlim_cur != RLIM_INFINITY) end.cpu_soft = limit.rlim_cur;
        if (limit.rlim_max != RLIM_INFINITY) end.cpu_hard = limit.rlim_max;
    }
    end.cpu_us = limited_cpu_us(pid);
    if (waitpid(pid, &end.status, WNOHANG) != pid) return end;
    end.is_ended = 1;
    return end;
}

static struct rlimit given_descriptors;
static int is_raised;

uint64_t zg_system_raise_descriptors(uint64_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
    if (limit.rlim_cur >= wanted) return limit.rlim_cur;
    given_descriptors = limit;
    // Raising the hard limit requires CAP_SYS_RESOURCE; without it, use all of the hard limit.
    struct rlimit raised = {wanted, limit.rlim_max > wanted ? limit.rlim_max : wanted};
    if (setrlimit(RLIMIT_NOFILE, &raised)) {
        raised.rlim_cur = raised.rlim_max = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &raised)) return limit.rlim_cur;
    }
    is_raised = 1;
    return raised.rlim_cur;
}

void zg_system_restore_descriptors(void) {
    if (is_raised) setrlimit(RLIMIT_NOFILE, &given_descriptors);
}

int zg_system_spawn(const char *path, char *const argv[], char *const envp[], const sigset_t *mask,
                    const struct sigaction *child_action) {
    int channel[2]; // carries errno if execve fails; a successful execve closes it
    if (pipe2(channel, O_CLOEXEC)) return -errno;
    pid_t pid = fork();
    if (pid < 0) {
        int error = errno;
        close(channel[0]);
        close(channel[1]);
        return -error;
    }
    if (!pid) {
        sigaction(SIGCHLD, child_action, NULL);
        sigprocmask(SIG_SETMASK, mask, NULL);
        zg_system_restore_descriptors();
        execve(path, argv, envp);
        int error = errno;
        if (write(channel[1], &error, sizeof error) < 0) _exit(126);
        _exit(127);
    }
    close(channel[1]);
    int error = 0;
    ssize_t count;
    do count = read(channel[0], &error, sizeof error);
    while (count < 0 && errno == EINTR);
    close(channel[0]);
    if (count != sizeof error) return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return -error;
}

int zg_system_has_file_capabilities(const char *path) { return getxattr(path, "security.capability", NULL, 0) > 0; }

// The kernel grants a read lease only if no process has the file open for writing (fcntl(2)). If a process opens the
// file while the lease is held, the kernel sends SIGIO, which is ignored meanwhile.
int zg_system_has_writers(int descriptor) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGIO, &ignore, &before);
    int result = fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno == EAGAIN ? 1 : -errno;
    if (result == 0) fcntl(descriptor, F_SETLEASE, F_UNLCK);
    sigaction(SIGIO, &before, NULL);
    return result;
}
