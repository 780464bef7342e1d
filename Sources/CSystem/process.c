// This process, and starting another: environment, signals, file capabilities. Cold; takes no lock.

#include "zg_system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

const char *zg_system_version(void) { return ZG_VERSION; }

// Set by scripts/build: a compiler knows of itself only what `#if compiler` can ask.
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

int zg_system_spawn(const char *path, char *const argv[], char *const envp[], const sigset_t *mask,
                    const struct sigaction *child_action) {
    int channel[2]; // carries errno of a failed execve; closed by a successful one
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

// A read lease can be had where nobody has the file open for writing (fcntl(2)). Whoever opens it meanwhile makes the kernel send SIGIO.
int zg_system_has_writers(int descriptor) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGIO, &ignore, &before);
    int result = fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno == EAGAIN ? 1 : -errno;
    if (result == 0) fcntl(descriptor, F_SETLEASE, F_UNLCK);
    sigaction(SIGIO, &before, NULL);
    return result;
}
