// Macros of versions.c for aarch64, which arch.h describes.

#ifndef ZG_OLDER_LIBC_ARCH_AARCH64_H
#define ZG_OLDER_LIBC_ARCH_AARCH64_H

#define OLDEST "2.17"
#define JUMP(name, version)                                                                                            \
    __asm__(".symver zg_older_" #name "," #name "@GLIBC_" version "\n\t.weak zg_older_" #name                          \
            "\n\t.text\n\t.globl " #name "\n\t.hidden " #name "\n\t.type " #name ",@function\n" #name                  \
            ":\n\t.cfi_startproc\n\thint #34\n\tadrp x16, :got:zg_older_" #name                                        \
            "\n\tldr x16, [x16, :got_lo12:zg_older_" #name "]\n\tbr x16\n\t.cfi_endproc\n\t.size " #name               \
            ", . - " #name)
#define JUMP_SINCE(name, version) JUMP(name, OLDEST)

#endif
