// Identifies a stack by what stays the same in another run of the same binaries: for each frame, the file name of its
// module and the offset in the module. Load addresses and directories do not matter. zguard computes the same values
// from the frames of a finding (Sources/ZombieGuard/Findings/StackIdentity.swift).
// Cold: a search of the loaded modules and some thirty multiplications for each frame. Same contexts as
// zg_module_find_unwind.

#ifndef ZG_IDENTITY_H
#define ZG_IDENTITY_H

#include "images/module.h"

// Frames that an identity covers, innermost first. Frames further out are not hashed: recursion would give one bug many
// identities.
enum { ZG_IDENTITY_FRAMES = 32 };

// Identity of no frames
#define ZG_IDENTITY_START UINT64_C(0xcbf29ce484222325)
// Extends an identity by the next frame outwards: 64-bit FNV-1a over the module's file name, a NUL, and the eight bytes
// of the offset, least significant first. `path`: the module's path, of which the directories are ignored. A frame in
// no module has the path "" and the offset 0.
uint64_t zg_identity_add(uint64_t identity, const char *path, uint64_t offset);

// Finds the module of a call, loaded or unloaded, but not its build-id, because reading it takes system calls. Sets the
// program's path where the loader has no name. False for code in no module.
bool zg_identity_find_module(uint64_t pc, struct zg_module *module);

// Returns the identity of the ZG_IDENTITY_FRAMES innermost frames of a stack in the depot. ZG_IDENTITY_START if the
// depot does not know the stack.
uint64_t zg_stack_identity(uint32_t stack);
// Stores the identities of the innermost frame, of the two innermost frames, and so on. Returns their number, at most
// ZG_IDENTITY_FRAMES; the last one is zg_stack_identity. A shortened stack has the identity of an inner part of the
// whole stack.
int zg_stack_identities(uint32_t stack, uint64_t *identities);

// Returns the index of the first of the sorted words that is not smaller than the identity; `count` if all are smaller.
uint64_t zg_identity_place(const uint64_t *sorted, uint64_t count, uint64_t identity);

#endif
