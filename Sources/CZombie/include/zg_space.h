// An address space that names are read from: this process's own, another's, or what a core file holds of one.
// Nothing here follows a pointer; what cannot be read is answered by fewer bytes.

#ifndef ZG_SPACE_H
#define ZG_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct zg_space {
    // Copies what is at an address, which may be none. Returns the bytes copied: all, those in front of what cannot be read,
    // or 0.
    uint64_t (*read)(void *context, void *to, uint64_t from, uint64_t bytes);
    // The address lies in an executable or library; in a part of one that can be executed.
    bool (*is_image)(void *context, uint64_t address);
    bool (*is_code)(void *context, uint64_t address);
    void *context;
};

#endif
