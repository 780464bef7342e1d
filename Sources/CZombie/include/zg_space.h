// An address space that names are read from: this process, another process, or a core file.
// Implementations never dereference an address, so unreadable memory causes no fault: they return fewer bytes.

#ifndef ZG_SPACE_H
#define ZG_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct zg_space {
    // Copies `bytes` bytes at `from`, which may be unmapped. Returns the number of bytes copied: all, those in front of
    // unreadable memory, or 0.
    uint64_t (*read)(void *context, void *to, uint64_t from, uint64_t bytes);
    // is_image: whether the address lies in an executable or library. is_code: whether the address lies in an
    // executable segment of such a file.
    bool (*is_image)(void *context, uint64_t address);
    bool (*is_code)(void *context, uint64_t address);
    void *context;
};

#endif
