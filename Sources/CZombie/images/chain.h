// The loaded images as the dynamic linker's own list has them (r_debug and link_map, which are there for debuggers), for C libraries
// that lack _dl_find_object. The list is read with system calls that fail where nothing is mapped, and without the loader's lock; what
// was found before is kept in a table, and looked at again whenever it is used: an image that has gone, or has another one in its place, is
// never taken for what it was.
// Any context: nobody waits, not for the loader either. System calls.

#ifndef ZG_CHAIN_H
#define ZG_CHAIN_H

#include "platform/base.h"

struct zg_module;

void zg_chain_init(void);
void zg_chain_after_fork_in_child(void);

enum zg_chain_answer {
    zg_chain_none,    // no image holds the address
    zg_chain_found,   // all but the build id is filled in
    zg_chain_unknown, // the list cannot be read, or has images that cannot be understood
};
// The image of the program's own namespace that holds the address.
enum zg_chain_answer zg_chain_find(uint64_t address, struct zg_module *module);

#endif
