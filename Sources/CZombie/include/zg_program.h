// Whether a program can take the library, as far as a look at its file tells: the same answer for what a guarded process executes and
// for `zguard run`.

#ifndef ZG_PROGRAM_H
#define ZG_PROGRAM_H

#include <stdint.h>

enum zg_program_kind {
    zg_program_takes_it,      // or nothing is known to the contrary
    zg_program_other_machine, // 32 bits, another processor: its loader complains
    zg_program_other_libc,    // its loader cannot resolve what the library needs of glibc
    zg_program_sanitized,     // AddressSanitizer and its kin have an allocator of their own, and want to come first
    zg_program_emulator,      // qemu's user mode hands the environment on to the program that it emulates
    zg_program_static         // nothing is preloaded into it, which does no harm, and its children may take the library
};

// `path` below the open directory `directory` (or AT_FDCWD); empty: the open file `directory` itself. Scripts are followed to their
// interpreter. Signal-safe, at most 2 KiB of stack, leaves errno alone.
enum zg_program_kind zg_program_look(int directory, const char *path);

// The file is an ELF file with a section of Swift's (swift5_…), among the first 2 KiB of their names: it is written in Swift.
int zg_program_has_swift(const char *path);

// Writes the value of LD_PRELOAD without the library's entries, and without the NUL, to `to` (which may be `value` itself). Returns its
// bytes.
uint64_t zg_program_preload_without_us(char *to, const char *value);
// The library stands in this value of LD_PRELOAD.
int zg_program_preload_has_us(const char *value);

#endif
