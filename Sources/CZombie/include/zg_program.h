// Decides from a program's file whether the library can be preloaded into it.
// Used for programs that a guarded process executes, and by `zguard run`.

#ifndef ZG_PROGRAM_H
#define ZG_PROGRAM_H

#include <stdint.h>

// Owner and type of the note in a static executable that contains the runtime (CZombieStatic). The note holds the
// version of the statistics page, 32 bits.
#define ZG_STATIC_NOTE_OWNER "zguard"
#define ZG_STATIC_NOTE_TYPE 1

enum zg_program_kind {
    zg_program_takes_it,      // the file allows the library to be preloaded, or contains it
    zg_program_other_machine, // 32 bits, or another processor: its loader would complain
    zg_program_other_libc,    // its loader cannot resolve the library's glibc symbols
    zg_program_sanitized,     // AddressSanitizer and similar have their own allocator and must come first
    // An emulator of qemu's user mode: it passes its environment, with LD_PRELOAD, on to the program that it emulates.
    zg_program_emulator,
    // Statically linked: LD_PRELOAD has no effect and does no harm, and the program's children may load the library.
    zg_program_static,
    // Its execution changes the user or the capabilities. glibc's loader then ignores LD_PRELOAD and removes it from
    // the environment, so that the program's children lack it, too.
    zg_program_privileged
};

// Inspects `path`, relative to the open directory `directory` (or AT_FDCWD); if `path` is empty, the open file
// `directory` itself. Follows scripts to their interpreter. Signal-safe; uses at most 2 KiB of stack and does not
// change errno.
enum zg_program_kind zg_program_classify(int directory, const char *path);

// Returns 1 if the file is an ELF file with a Swift section (swift5_…), else 0. Searches only the first 2 KiB of
// section names.
int zg_program_has_swift(const char *path);

// Copies `value`, a value of LD_PRELOAD, to `to` without the entries that name the library. `to` may be `value`. Writes
// no NUL; returns the number of bytes.
uint64_t zg_program_preload_without_library(char *to, const char *value);
// Returns 1 if this value of LD_PRELOAD contains the library, else 0.
int zg_program_preload_has_library(const char *value);

#endif
