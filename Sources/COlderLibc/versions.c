// Lets zguard run with C libraries from 2.31 on, although it is built with a newer one. Provides the libc functions
// that older libraries lack, or have in another version, to everything that is linked into zguard, including Swift's
// libraries. No state; symbols are hidden, so that no shared library uses them.
//
// The linker binds a reference to the newest version of a libc function. Functions that moved from libpthread and libdl
// into libc (2.34), and some others, have a second version that old and new libraries share, and are bound to it here.
// Functions that older libraries lack are implemented here. A test fails if zguard refers to any other newer version
// (Tests/House/release.py).
//
// All references to the shared versions are weak, because zguard requires no library but libc.so.6 and the loader:
// libpthread.so.0 and libdl.so.2 are missing in small roots (start.c).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"

#define HIDDEN __attribute__((visibility("hidden")))

// These functions moved into libc in 2.34, or got a new version in that release.
JUMP(dladdr, OLDEST);
JUMP_SINCE(dladdr1, "2.3.3");
JUMP(dlerror, OLDEST);
JUMP(dlopen, OLDEST);
JUMP(dlsym, OLDEST);
JUMP(pthread_attr_getstack, OLDEST);
JUMP(pthread_attr_setstacksize, OLDEST);
JUMP(pthread_create, OLDEST);
JUMP(pthread_detach, OLDEST);
JUMP_SINCE(pthread_getaffinity_np, "2.3.4");
JUMP(pthread_getattr_np, OLDEST);
JUMP(pthread_key_create, OLDEST);
JUMP(pthread_join, OLDEST);
JUMP(pthread_kill, OLDEST);
JUMP(pthread_mutexattr_destroy, OLDEST);
JUMP(pthread_mutexattr_init, OLDEST);
JUMP(pthread_mutexattr_settype, OLDEST);
JUMP_SINCE(pthread_setname_np, "2.12");
JUMP(pthread_setspecific, OLDEST);
JUMP(pthread_sigmask, OLDEST);
JUMP(sem_destroy, OLDEST);
JUMP(sem_init, OLDEST);
JUMP(sem_open, OLDEST);
JUMP(sem_post, OLDEST);
JUMP(sem_timedwait, OLDEST);
JUMP(sem_wait, OLDEST);
JUMP(pthread_once, OLDEST);
JUMP(__pthread_key_create, OLDEST);

// Since 2.38, headers replace sscanf, strtol and strtoll by these functions, which also accept binary numbers ("0b").
// zguard parses no binary numbers, so the older functions serve. They are declared by symbol, because headers may
// redirect their names.
int older_vsscanf(const char *text, const char *format, va_list arguments) __asm__("vsscanf");
long older_strtol(const char *text, char **end, int base) __asm__("strtol");
long long older_strtoll(const char *text, char **end, int base) __asm__("strtoll");
HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...);
HIDDEN long __isoc23_strtol(const char *text, char **end, int base);
HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base);

int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = older_vsscanf(text, format, arguments);
    va_end(arguments);
    return count;
}
long __isoc23_strtol(const char *text, char **end, int base) { return older_strtol(text, end, base); }
long long __isoc23_strtoll(const char *text, char **end, int base) { return older_strtoll(text, end, base); }

// The function exists since glibc 2.38. Returns the length of `from`; copies what fits into `room` bytes, NUL included.
HIDDEN size_t strlcpy(char *restrict to, const char *restrict from, size_t room);
size_t strlcpy(char *restrict to, const char *restrict from, size_t room) {
    size_t bytes = 0;
    for (; from[bytes]; bytes++)
        if (bytes + 1 < room) to[bytes] = from[bytes];
    if (room) to[bytes < room ? bytes : room - 1] = 0;
    return bytes;
}

// Before 2.33 these functions were linked statically into every program and called __xstat and similar functions. The
// system call suffices, because libc's struct stat has the kernel's layout.
HIDDEN int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags) {
    return (int)syscall(SYS_newfstatat, directory, path, status, flags);
}

HIDDEN int stat(const char *restrict path, struct stat *restrict status) {
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

HIDDEN int lstat(const char *restrict path, struct stat *restrict status) {
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

HIDDEN int fstat(int descriptor, struct stat *status) { return (int)syscall(SYS_fstat, descriptor, status); }

// The variable exists since 2.32. If it is 0, code that reads it uses atomic instructions, as before the variable
// existed.
HIDDEN char __libc_single_threaded = 0;

// The function exists since glibc 2.32. If libc lacks it, the attribute is ignored: a new thread inherits the signal
// mask of its creator.
HIDDEN int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *mask) {
    int (*set)(pthread_attr_t *, const sigset_t *) =
        (int (*)(pthread_attr_t *, const sigset_t *))dlsym(RTLD_DEFAULT, "pthread_attr_setsigmask_np");
    return set != NULL ? set(attributes, mask) : 0;
}
