// Implements struct zg_space for this process's own memory. Cold, any context; takes no lock of the runtime.

#include "images/space.h"

#include "images/module.h"
#include "platform/os.h"

static uint64_t read_own(void *context, void *to, uint64_t from, uint64_t bytes) {
    (void)context;
    return zg_os_read_memory(to, from, bytes);
}
static bool is_own_image(void *context, uint64_t address) {
    (void)context;
    struct zg_module module;
    return zg_module_find_unwind(address, &module);
}
static bool is_own_code(void *context, uint64_t address) {
    (void)context;
    return zg_module_is_code(address);
}

const struct zg_space zg_space_own = {.read = read_own, .is_image = is_own_image, .is_code = is_own_code};
