// Macros of versions.c for x86-64, which arch.h describes.

#ifndef ZG_OLDER_LIBC_ARCH_X86_64_H
#define ZG_OLDER_LIBC_ARCH_X86_64_H

#define OLDEST "2.2.5"
#define JUMP(name, version)                                                                                            \
    __asm__(".symver zg_older_" #name "," #name "@GLIBC_" version "\n\t.weak zg_older_" #name                          \
            "\n\t.text\n\t.globl " #name "\n\t.hidden " #name "\n\t.type " #name ",@function\n" #name                  \
            ":\n\t.cfi_startproc\n\tendbr64\n\tjmp *zg_older_" #name "@GOTPCREL(%rip)\n\t.cfi_endproc\n\t.size " #name \
            ", . - " #name)
#define JUMP_SINCE(name, version) JUMP(name, version)

#endif
