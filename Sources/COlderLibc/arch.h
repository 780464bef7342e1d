// What versions.c needs to know about the processor. Each arch_<cpu>.h says:
// OLDEST              the first version of glibc that there was for it.
// JUMP(name, version) a function NAME that jumps to NAME@GLIBC_version, with every register and the stack as they are, whatever its arguments.
// JUMP_SINCE          the same for functions that are newer than x86-64's first version, but not than other processors'.

#ifndef ZG_OLDER_LIBC_ARCH_H
#define ZG_OLDER_LIBC_ARCH_H

#if defined(__x86_64__)
#include "arch_x86_64.h"
#elif defined(__aarch64__)
#include "arch_aarch64.h"
#endif

#endif
