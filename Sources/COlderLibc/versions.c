// zguard for C libraries from 2.31 on, although it is built with a newer one: whatever is linked into it, Swift's own libraries
// included, gets here what libc would only have in a version that older ones lack. No state; hidden, so that no library is served.
//
// A linker gives every reference to a function of libc the newest version there is. Functions that moved from libpthread and libdl
// into libc (2.34) and some others have a second one, which both old and new libraries have; functions that were no functions
// before are written anew. What is beyond the list, a test says (Tests/House/release.py).

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

// Moved into libc in 2.34, or given a new version then.
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

// Since 2.38 they keep to IEC 60559:2019 in what they set errno for.
JUMP(fmod, OLDEST);
JUMP(fmodf, OLDEST);

// What these names stand for since 2.38 reads binary numbers, too ("0b"), for which nobody asks here. By their symbols: headers may make
// one name of the other.
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

// Since 2.38. The length of what was to be copied; what there is room for is, and ends with a zero.
HIDDEN size_t strlcpy(char *restrict to, const char *restrict from, size_t room);
size_t strlcpy(char *restrict to, const char *restrict from, size_t room) {
    size_t bytes = 0;
    for (; from[bytes]; bytes++)
        if (bytes + 1 < room) to[bytes] = from[bytes];
    if (room) to[bytes < room ? bytes : room - 1] = 0;
    return bytes;
}

// Before 2.33 these were parts of every program, which called __xstat and its kin. The kernel's struct stat is libc's.
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

// Since 2.32. What asks uses atomic instructions where it is 0, as before there was such a thing.
HIDDEN char __libc_single_threaded = 0;

// Since 2.32. Without it a new thread has the signal mask of its creator, as without this attribute.
HIDDEN int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *mask) {
    int (*set)(pthread_attr_t *, const sigset_t *) =
        (int (*)(pthread_attr_t *, const sigset_t *))dlsym(RTLD_DEFAULT, "pthread_attr_setsigmask_np");
    return set != NULL ? set(attributes, mask) : 0;
}

// Since libstdc++ of GCC 11. What it throws there is derived from what is thrown here.
void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((noreturn));
HIDDEN void std_throw_bad_array_new_length(void) __asm__("_ZSt28__throw_bad_array_new_lengthv")
    __attribute__((noreturn));
void std_throw_bad_array_new_length(void) { std_throw_bad_alloc(); }

// Since libstdc++ of GCC 12, where its headers' assertions are on.
HIDDEN void glibcxx_assert_fail(const char *file, int line, const char *function,
                                const char *condition) __asm__("_ZSt21__glibcxx_assert_failPKciS0_S0_")
    __attribute__((noreturn));
void glibcxx_assert_fail(const char *file, int line, const char *function, const char *condition) {
    fprintf(stderr, "%s:%d: %s: '%s' does not hold\n", file, line, function, condition);
    abort();
}

// Until 2.34 a program's own start-up code told __libc_start_main how its constructors are called. That of newer ones passes nothing,
// since libc reads the list itself; newer libraries still call what is passed instead. (csu/libc-start.c of glibc says which does what.)
typedef void (*constructor)(int, char **, char **);
extern constructor preinit_start[] __asm__("__preinit_array_start") HIDDEN;
extern constructor preinit_end[] __asm__("__preinit_array_end") HIDDEN;
extern constructor init_start[] __asm__("__init_array_start") HIDDEN;
extern constructor init_end[] __asm__("__init_array_end") HIDDEN;
extern void _init(void) HIDDEN;

static void call_constructors(int count, char **arguments, char **environment) {
    for (constructor *each = preinit_start; each < preinit_end; each++) {
        (*each)(count, arguments, environment);
    }
    _init();
    for (constructor *each = init_start; each < init_end; each++) {
        (*each)(count, arguments, environment);
    }
}

int old_start_main(int (*)(int, char **, char **), int, char **, constructor, void (*)(void), void (*)(void),
                   void *) __asm__("zg_older___libc_start_main");
__asm__(".symver zg_older___libc_start_main,__libc_start_main@GLIBC_" OLDEST);

HIDDEN int start_main(int (*program)(int, char **, char **), int count, char **arguments, constructor none,
                      void (*no_end)(void), void (*loader_end)(void), void *stack_end) __asm__("__libc_start_main");

int start_main(int (*program)(int, char **, char **), int count, char **arguments, constructor none,
               void (*no_end)(void), void (*loader_end)(void), void *stack_end) {
    (void)none;
    // Destructors are the loader's business, with whatever libc: it calls those of the program as of every library.
    return old_start_main(program, count, arguments, call_constructors, no_end, loader_end, stack_end);
}
