// The refcount emulator. After a fault, executes the code from the faulting instruction on. It works on a copy of the
// registers and on memory that the caller provides, to find out what the code would do to an object's reference count,
// or with its class pointer.

#ifndef ZG_REFCOUNT_EMULATOR_H
#define ZG_REFCOUNT_EMULATOR_H

#include "platform/arch.h"

// Memory, accessed as words at multiples of 8.
struct zg_refcount_memory {
    bool (*read)(void *context, uint64_t address, uint64_t *word); // false: unreadable
    bool (*write)(void *context, uint64_t address, uint64_t word); // false: stop the emulation
    void *context;
};
enum zg_refcount_end {
    zg_refcount_lost,     // trap or unsupported instruction, unreadable memory, unknown value, or too many instructions
    zg_refcount_returned, // the function that contains the first instruction returned
    zg_refcount_stopped,  // `write` returned false
};
// Executes at most `most` instructions from registers->pc. All general registers must be known; flags and vectors start
// as unknown, or as zeros (ZG_ARCH_ASSUMES_ZEROS). An address, a branch or a store that depends on an unknown value
// ends the emulation with zg_refcount_lost. Pure.
enum zg_refcount_end zg_refcount_emulate(const struct zg_registers *registers, const struct zg_refcount_memory *memory,
                                         int most);

#endif
