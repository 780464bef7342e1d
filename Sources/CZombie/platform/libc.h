// Differences between the C libraries: glibc, or musl in static executables. Any context; no lock.

#ifndef ZG_LIBC_H
#define ZG_LIBC_H

#include <features.h>
#include <stdlib.h>

#include "platform/base.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>

// True if libc's functions have unwind information (CFI).
enum { zg_libc_has_cfi = true };
// True if realloc(block, 0) frees the block and returns NULL. musl returns a block of no bytes.
enum { zg_libc_frees_by_realloc = true };

extern void *__libc_stack_end; // defined by the loader; points to argc, which the kernel put on the stack

// Returns the minor version of glibc, such as 36 for glibc 2.36.
ZG_INLINE int zg_libc_minor(void) {
    const char *version = gnu_get_libc_version();
    int minor = 0;
    for (version += 2; *version >= '0' && *version <= '9'; version++) minor = minor * 10 + (*version - '0');
    return minor;
}
// An address in libc's image. The runtime publishes functions of libc's names, but not this one.
ZG_INLINE uint64_t zg_libc_address(void) { return (uint64_t)gnu_get_libc_version; }
// An address in the loader's image.
ZG_INLINE uint64_t zg_libc_loader_address(void) { return (uint64_t)&__libc_stack_end; }
// The upper end of the main thread's stack: the address of argc. NULL before libc has set it.
ZG_INLINE uint64_t *zg_libc_stack_end(void) { return __libc_stack_end; }
ZG_INLINE uint64_t zg_libc_function_without_return(uint64_t pc) { return (void)pc, 0; }

extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);
extern void _IO_list_resetlock(void);
// Takes the lock of the list of all streams, which libc's fork takes after the last fork handler.
ZG_INLINE void zg_libc_lock_streams(void) { _IO_list_lock(); }
ZG_INLINE void zg_libc_unlock_streams(bool is_child) {
    if (is_child) _IO_list_resetlock(); // libc's fork has done this if libc knew of several threads
    else _IO_list_unlock();
}
#else
enum { zg_libc_has_cfi = false, zg_libc_frees_by_realloc = false };
// musl has no versions that matter here. Its functions are in the executable's only image.
ZG_INLINE int zg_libc_minor(void) { return 0; }
ZG_INLINE uint64_t zg_libc_address(void) { return (uint64_t)getenv; }
ZG_INLINE uint64_t zg_libc_loader_address(void) { return (uint64_t)getenv; }
// Finds argc through the environment, in front of which the kernel put the arguments. Caches the first result, because
// the program may replace the environment later. NULL before libc has set `environ`.
uint64_t *zg_libc_stack_end(void);
// Does nothing: musl's fork takes the lock of all streams itself, after the runtime's locks, and that lock is not
// recursive. A thread that waits for the runtime's locks holds the lock of the streams only if fflush(NULL) has called
// a function of the program (fopencookie).
ZG_INLINE void zg_libc_lock_streams(void) {}
ZG_INLINE void zg_libc_unlock_streams(bool is_child) { (void)is_child; }
// Returns the start of the function at `pc` if it is one of musl's functions that never return; otherwise 0.
uint64_t zg_libc_function_without_return(uint64_t pc);
#define RTLD_DEEPBIND 0x8 // never passed: musl has no such flag
// Registers a function that is called at exit with the exit status. Returns 0, or -1 if one is registered already
// (musl.c of CZombieStatic).
int on_exit(void (*function)(int status, void *argument), void *argument);
#endif

#endif
