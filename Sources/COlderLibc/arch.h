// Selects the processor-specific macros of versions.c. Each arch_<cpu>.h defines:
// OLDEST              the first version of glibc for the processor.
// JUMP(name, version) a hidden function NAME that jumps to NAME@GLIBC_version and keeps all registers and the stack.
// JUMP_SINCE          like JUMP, for functions that are newer than OLDEST on x86-64 only.

#ifndef ZG_OLDER_LIBC_ARCH_H
#define ZG_OLDER_LIBC_ARCH_H

#if defined(__x86_64__)
#include "arch_x86_64.h"
#elif defined(__aarch64__)
#include "arch_aarch64.h"
#endif

#endif
