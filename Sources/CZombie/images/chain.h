// Finds loaded images through the dynamic linker's list for debuggers (r_debug, link_map), for C libraries that lack
// _dl_find_object.
// The list is read without the loader's lock, by system calls that return an error for unmapped memory. Found images
// are kept in a table. Each use of a table entry first checks that the image is unchanged, so an unloaded or replaced
// image is never reported.
// Any context; takes no lock and never waits. Makes system calls.

#ifndef ZG_CHAIN_H
#define ZG_CHAIN_H

#include "platform/base.h"

struct zg_module;

void zg_chain_init(void);
void zg_chain_after_fork_in_child(void);

enum zg_chain_answer {
    zg_chain_none,    // no image contains the address, or the list was changed or corrupt in each of four walks
    zg_chain_found,   // all fields but the build id are filled in
    zg_chain_unknown, // there is no list, reading it is refused (seccomp), or an image in it cannot be parsed
};
// Finds the image that contains the address, in the linker namespace of the program. Fills `*module` only if found.
enum zg_chain_answer zg_chain_find(uint64_t address, struct zg_module *module);

#endif
