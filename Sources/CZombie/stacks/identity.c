// Computes the identities of stacks. Cold; takes no lock.

#include "stacks/identity.h"

#include "images/unloaded.h"
#include "stacks/depot.h"

static uint64_t add_byte(uint64_t hash, uint8_t byte) { return (hash ^ byte) * UINT64_C(0x100000001b3); }

uint64_t zg_identity_add(uint64_t identity, const char *path, uint64_t offset) {
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/') name = at + 1;
    for (; *name; name++) identity = add_byte(identity, (uint8_t)*name);
    identity = add_byte(identity, 0);
    for (int shift = 0; shift < 64; shift += 8) identity = add_byte(identity, (uint8_t)(offset >> shift));
    return identity;
}

bool zg_identity_find_module(uint64_t pc, struct zg_module *module) {
    if (!zg_module_find_unwind(pc, module) && !zg_unloaded_find(pc, module)) return false;
    // The dynamic linker has no name for the program.
    if (!module->path || !*module->path) module->path = zg_module_program_path();
    return true;
}

static uint64_t add_frame(uint64_t identity, uint64_t frame) {
    static const char none[] = "";
    // The depot holds return addresses. A call at the end of a function returns to an address behind the function.
    uint64_t pc = frame - 1;
    struct zg_module module;
    if (!zg_identity_find_module(pc, &module)) return zg_identity_add(identity, none, 0);
    return zg_identity_add(identity, module.path, pc - module.bias);
}

int zg_stack_identities(uint32_t stack, uint64_t *identities) {
    uint64_t frames[ZG_IDENTITY_FRAMES], identity = ZG_IDENTITY_START;
    int count = zg_depot_get(stack, frames, ZG_IDENTITY_FRAMES);
    for (int i = 0; i < count; i++) identities[i] = identity = add_frame(identity, frames[i]);
    return count;
}

uint64_t zg_stack_identity(uint32_t stack) {
    uint64_t identities[ZG_IDENTITY_FRAMES];
    int count = zg_stack_identities(stack, identities);
    return count ? identities[count - 1] : ZG_IDENTITY_START;
}

uint64_t zg_identity_place(const uint64_t *sorted, uint64_t count, uint64_t identity) {
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (sorted[middle] < identity) low = middle + 1;
        else high = middle;
    }
    return low;
}
