// Finds the loaded image that contains an address: its range, unwind table, path, build id and symbols.
// zg_module_find_unwind runs on a hot path, after a miss of the unwind rule cache. It calls _dl_find_object (glibc
// 2.35), or with an older C library reads the loader's list (chain.h); neither takes a lock. Only if the list is
// unusable, it calls dl_iterate_phdr, which takes the loader's lock. zg_module_find is cold.

#ifndef ZG_MODULE_H
#define ZG_MODULE_H

#include "platform/base.h"

struct zg_module {
    uint64_t start, end;         // mapped range
    uint64_t bias;               // address minus ELF virtual address
    const uint8_t *eh_frame_hdr; // NULL if the image has none
    const char *path;            // NULL if unknown; valid while the image is loaded
    const uint8_t *build_id;
    uint32_t build_id_bytes; // 0 if the image has none
};

void zg_module_init(bool use_find_object);
bool zg_module_has_find_object(void);
// Sets the .eh_frame_hdr of a static executable that lacks this section. Call at start-up.
void zg_module_set_frames(const uint8_t *header);
void zg_module_after_fork_in_child(void);
bool zg_module_find_unwind(uint64_t pc, struct zg_module *module);
// Whether the address lies in a loaded image other than the program's executable. Same contexts as
// zg_module_find_unwind.
bool zg_module_is_library(uint64_t address);
// Finds the image that contains the address and fills all fields. False if no image contains it.
bool zg_module_find(uint64_t address, struct zg_module *module);
// Whether the address lies in an executable segment of a loaded image. Cold.
bool zg_module_is_code(uint64_t address);
const char *zg_module_program_path(void);
// Returns the path that names the program in reports: the executed path if that is a link with another name, otherwise
// the path of the file.
const char *zg_module_executed_path(void);
// Whether the image that contains `address` imports this dynamic symbol. Cold.
bool zg_module_imports(uint64_t address, const char *symbol);
// Returns the function name of the PLT slot at `place` in the image that contains `pc`: the loader writes the
// function's address into this slot at the first call. NULL if `place` is not a PLT slot. The name is valid while the
// image is loaded. Same contexts as zg_module_find_unwind.
const char *zg_module_plt_symbol(uint64_t pc, uint64_t place);
// Searches all loaded images, in load order, for an exported function of this name. Returns the first one found, or
// NULL. Unlike dlsym, does not take the loader's main lock: a thread in dlopen holds that lock while its constructors
// may wait for the calling thread. Cold.
void *zg_module_function(const char *name);
// Like zg_module_function, but finds a variable.
void *zg_module_variable(const char *name);
// Like zg_module_function, but searches only the image that contains `address`.
void *zg_module_function_in(uint64_t address, const char *name);
// Like zg_module_function, but searches only the program's executable.
void *zg_module_program_function(const char *name);
// Like zg_module_function, but searches only images loaded after the runtime, including those opened with RTLD_LOCAL.
void *zg_module_next_function(const char *name);

#endif
