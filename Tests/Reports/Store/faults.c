// Preloaded into zguard by Tests/Reports/store.py: counts the calls that change a report store, and makes one of them
// fail or kill the process. STORE_DIRECTORY is the store, STORE_FAULT is "N ACTION", STORE_LOG gets a line for each
// complete line written, and one for the fault. Actions: "before" and "after" kill the process before or after the
// call; "half" stops a write in the middle and kills the process; "short" writes half and makes all later writes fail;
// a number is the errno of this call alone.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *store, *log_path;
static char action[16];
static int target, count;
static int full; // set by "short": all writes fail with ENOSPC from now on

static void note(const char *text) {
    static int (*real_open)(const char *, int, ...);
    static ssize_t (*real_write)(int, const void *, size_t);
    if (!real_open) real_open = dlsym(RTLD_NEXT, "open"), real_write = dlsym(RTLD_NEXT, "write");
    int file = real_open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || real_write(file, text, strlen(text)) < 0) abort();
    close(file);
}

__attribute__((constructor)) static void start(void) {
    // Only zguard gets faults, not the program that it guards.
    if (strcmp(program_invocation_short_name, "zguard") != 0) return;
    store = getenv("STORE_DIRECTORY");
    log_path = getenv("STORE_LOG");
    const char *fault = getenv("STORE_FAULT");
    if (fault) sscanf(fault, "%d %15s", &target, action);
}

static bool path_of(int file, char path[PATH_MAX]) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return false;
    path[length] = 0;
    return strncmp(path, store, strlen(store)) == 0;
}

static bool is_store(int file) {
    char path[PATH_MAX];
    return store && path_of(file, path);
}

// Returns whether the call must fail, with errno set. Kills the process for action "before".
static bool fails(const char *name, int file) {
    if (!store || !is_store(file)) return false;
    if (++count != target) return false;
    char text[80];
    snprintf(text, sizeof text, "fault %s %s\n", name, action);
    note(text);
    if (strcmp(action, "before") == 0) kill(getpid(), SIGKILL);
    if (action[0] < '0' || action[0] > '9') return false;
    errno = atoi(action);
    return true;
}

static void after(int file) {
    if (store && count == target && strcmp(action, "after") == 0 && is_store(file)) kill(getpid(), SIGKILL);
}

#define REAL(name)                                                                                                     \
    static __typeof__(name) *real;                                                                                     \
    if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write);
    if (!store || !is_store(file)) return real(file, bytes, size);
    if (full || fails("write", file)) {
        if (full) errno = ENOSPC;
        return -1;
    }
    if (count == target && size > 1 && (strcmp(action, "half") == 0 || strcmp(action, "short") == 0)) {
        ssize_t written = real(file, bytes, size / 2);
        if (action[0] == 'h') kill(getpid(), SIGKILL);
        full = 1;
        return written;
    }
    ssize_t written = real(file, bytes, size);
    char path[PATH_MAX];
    path_of(file, path);
    if (written == (ssize_t)size && strrchr(path, '/')[1] != '.') note("line\n");
    after(file);
    return written;
}

int openat(int directory, const char *name, int flags, ...) {
    REAL(openat);
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    bool counts = (flags & O_CREAT) && directory != AT_FDCWD;
    if (counts && fails("openat", directory)) return -1;
    int file = real(directory, name, flags, mode);
    if (counts) after(directory);
    return file;
}

int renameat(int directory, const char *name, int other, const char *to) {
    REAL(renameat);
    if (fails("renameat", directory)) return -1;
    int result = real(directory, name, other, to);
    after(directory);
    return result;
}

int unlinkat(int directory, const char *name, int flags) {
    REAL(unlinkat);
    if (fails("unlinkat", directory)) return -1;
    int result = real(directory, name, flags);
    after(directory);
    return result;
}

int fsync(int file) {
    REAL(fsync);
    if (fails("fsync", file)) return -1;
    int result = real(file);
    after(file);
    return result;
}

int ftruncate(int file, off_t length) {
    REAL(ftruncate);
    if (fails("ftruncate", file)) return -1;
    int result = real(file, length);
    after(file);
    return result;
}

int futimens(int file, const struct timespec times[2]) {
    REAL(futimens);
    if (fails("futimens", file)) return -1;
    int result = real(file, times);
    after(file);
    return result;
}

int flock(int file, int operation) {
    REAL(flock);
    if (fails("flock", file)) return -1;
    int result = real(file, operation);
    after(file);
    return result;
}
