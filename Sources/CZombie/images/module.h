// The loaded images: which one holds an address, its unwind table, its name and build id.
// zg_module_find_unwind: hot path on a miss of the rule cache, lock-free where the C library has _dl_find_object
// (2.35), and with older ones, where the loader's list is read (chain.h). Where that is not possible, dl_iterate_phdr is called, which
// takes the loader's lock. zg_module_find: cold.

#ifndef ZG_MODULE_H
#define ZG_MODULE_H

#include "platform/base.h"

struct zg_module {
    uint64_t start, end;         // mapped range
    uint64_t bias;               // address minus ELF virtual address
    const uint8_t *eh_frame_hdr; // NULL where the image has none
    const char *path;            // NULL while unknown; valid while the image stays loaded
    const uint8_t *build_id;
    uint32_t build_id_bytes; // 0 where the image has none
};

void zg_module_init(bool use_find_object);
bool zg_module_has_find_object(void);
void zg_module_after_fork_in_child(void);
bool zg_module_find_unwind(uint64_t pc, struct zg_module *module);
// The address lies in a loaded image other than the program's executable. Where zg_module_find_unwind may be called.
bool zg_module_is_library(uint64_t address);
// The address lies in a loaded image; fills everything.
bool zg_module_find(uint64_t address, struct zg_module *module);
// The address lies in the part of a loaded image that can be executed. Cold.
bool zg_module_is_code(uint64_t address);
const char *zg_module_program_path(void);
// The image that holds `address` asks for this dynamic symbol from elsewhere (it does not define it). Cold.
bool zg_module_imports(uint64_t address, const char *symbol);
// The function whose address the loader writes into this word, for the code at `pc`, when it is called for the first time; NULL where
// it is none of those. As long as its image stays loaded. Where zg_module_find_unwind may be called.
const char *zg_module_called_through(uint64_t pc, uint64_t place);
// The function that the first of all loaded images exports under this name; NULL where there is none. As dlsym, but for the
// loader's main lock, which a thread holds during dlopen while the constructors that it runs may wait for this one. Cold.
void *zg_module_function(const char *name);
// The same of a variable.
void *zg_module_variable(const char *name);
// A function as zg_module_function finds it, in the one image that holds `address`.
void *zg_module_function_in(uint64_t address, const char *name);
// The same in the program's executable alone.
void *zg_module_program_function(const char *name);
// The same behind the image that holds the runtime itself, in the order in which images were loaded, also of those that the program has
// opened for itself alone.
void *zg_module_next_function(const char *name);

#endif
