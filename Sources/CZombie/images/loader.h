// The dynamic linker's search order. Cold; takes the loader's lock.
// libc's functions that were parts of other libraries before glibc 2.34 (libdl, libpthread) are referred to by the name that they have
// had from the first, and weakly: a program that was linked with neither library may have none of them.

#ifndef ZG_LOADER_H
#define ZG_LOADER_H

#include <gnu/libc-version.h>

#include "platform/arch.h"

// Follows a declaration: the symbol's oldest version, or NULL.
#define ZG_SINCE_FIRST_GLIBC(symbol) __asm__(symbol "@" ZG_ARCH_FIRST_GLIBC) __attribute__((weak))

// libc's dlsym: a part of libdl before glibc 2.34, which few small programs have.
extern void *libcs_search(void *from, const char *symbol) ZG_SINCE_FIRST_GLIBC("dlsym");

// The 36 of glibc 2.36.
ZG_INLINE int zg_libc_minor(void) {
    const char *version = gnu_get_libc_version();
    int minor = 0;
    for (version += 2; *version >= '0' && *version <= '9'; version++) minor = minor * 10 + (*version - '0');
    return minor;
}

// The next definition of a symbol behind ours in the search order; NULL where there is none.
void *zg_loader_next(const char *symbol);
// The first definition of a symbol in the search order; NULL where there is none.
void *zg_loader_first(const char *symbol);

#endif
