// What the runtime knows of its C library: glibc, or musl in static executables. Any context; no lock.

#ifndef ZG_LIBC_H
#define ZG_LIBC_H

#include <features.h>
#include <stdlib.h>

#include "platform/base.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>

// Whether libc's functions have unwind information (CFI).
enum { zg_libc_has_cfi = true };
// Whether realloc(block, 0) frees the block and returns NULL. musl returns a block of no bytes.
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
// The lock of all streams, which fork takes before it calls streams' own functions.
ZG_INLINE void zg_libc_lock_streams(void) { _IO_list_lock(); }
ZG_INLINE void zg_libc_unlock_streams(bool is_child) {
    if (is_child) _IO_list_resetlock(); // libc's fork has done this if libc knew of several threads
    else _IO_list_unlock();
}
#else
enum { zg_libc_has_cfi = false, zg_libc_frees_by_realloc = false };
// musl has no versions to tell apart. Its functions are in the executable's only image.
ZG_INLINE int zg_libc_minor(void) { return 0; }
ZG_INLINE uint64_t zg_libc_address(void) { return (uint64_t)getenv; }
ZG_INLINE uint64_t zg_libc_loader_address(void) { return (uint64_t)getenv; }
// Found from the environment, in front of which the kernel put the arguments, when the runtime first asks: later the
// program may have replaced the environment. NULL before libc has set it.
uint64_t *zg_libc_stack_end(void);
// musl's fork takes its lock of the streams itself, behind the runtime's locks, and the lock is not recursive. A thread
// that waits for the runtime holds it only in fflush(NULL) of a stream that calls the program (fopencookie).
ZG_INLINE void zg_libc_lock_streams(void) {}
ZG_INLINE void zg_libc_unlock_streams(bool is_child) { (void)is_child; }
// Returns the start of the function that contains `pc` if it is one of those of musl that never return; otherwise 0.
uint64_t zg_libc_function_without_return(uint64_t pc);
#define RTLD_DEEPBIND 0x8 // never passed: musl has no such flag
// Calls a function at exit with the exit status. Returns 0, or -1 if there is one already (musl.c of CZombieStatic).
int on_exit(void (*function)(int status, void *argument), void *argument);
#endif

#endif
