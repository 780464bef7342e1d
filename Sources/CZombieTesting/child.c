// Starts a copy of the test bundle as a child process. Cold; takes no lock.

#define _GNU_SOURCE
#include "include/zg_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Weak symbol, because glibc has the function only since 2.34.
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *, int) __attribute__((weak));

// `input`, `errors`: a descriptor; -1 stands for /dev/null.
static int prepare(posix_spawn_file_actions_t *files, int input, int output, int errors) {
    int error = input < 0 ? posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0)
                          : posix_spawn_file_actions_adddup2(files, input, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(files, output, 1);
    if (!error)
        error = errors < 0 ? posix_spawn_file_actions_addopen(files, 2, "/dev/null", O_WRONLY, 0)
                           : posix_spawn_file_actions_adddup2(files, errors, 2);
    if (error) return error;
    if (posix_spawn_file_actions_addclosefrom_np) return posix_spawn_file_actions_addclosefrom_np(files, 3);
    return posix_spawn_file_actions_addclose(files, output);
}

// Requests default signal dispositions, an empty signal mask, and a new process group, so that a hanging child can be
// killed with its descendants.
static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error =
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (!error) error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
    return error;
}

static pid_t start(const char *path, char *const argv[], char *const envp[], int input, int output, int errors) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    pid_t child = -1;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return -error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = prepare(&files, input, output, errors);
        if (!error) error = set_attributes(&attributes);
        if (!error) error = posix_spawn(&child, path, &files, &attributes, argv, envp);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error ? -error : child;
}

pid_t zg_testing_spawn(const char *path, char *const argv[], char *const envp[], int output) {
    return start(path, argv, envp, -1, output, output);
}

pid_t zg_testing_start_helper(const char *path, char *const argv[], char *const envp[], int socket) {
    return start(path, argv, envp, socket, socket, -1);
}

int zg_testing_poll(pid_t child, int *code) {
    int status;
    pid_t got;
    do got = waitpid(child, &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got == 0) return 0;
    if (got < 0) return 3;
    *code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return WIFSIGNALED(status) ? 2 : 1;
}
