// What code is about to do to a reference count: its instructions are executed on a copy of the registers and on the
// caller's memory.

#ifndef ZG_REFCOUNT_EMULATOR_H
#define ZG_REFCOUNT_EMULATOR_H

#include "platform/arch.h"

// Memory as words at multiples of 8.
struct zg_refcount_memory {
    bool (*read)(void *context, uint64_t address, uint64_t *word); // false: unreadable
    bool (*write)(void *context, uint64_t address, uint64_t word); // false: enough is known
    void *context;
};
enum zg_refcount_end {
    zg_refcount_lost,     // an instruction that is not understood, memory that cannot be read, too many instructions
    zg_refcount_returned, // the function that the first instruction is in returns
    zg_refcount_stopped,  // a write said so
};
// Executes the instructions from registers->pc on, `most` at the most. All general registers have to be known; flags
// and vectors are unknown, or taken for zeros (ZG_ARCH_ASSUMES_ZEROS). An address, a branch or a store that depends on
// an unknown value ends the emulation as lost. Pure.
enum zg_refcount_end zg_refcount_emulate(const struct zg_registers *registers, const struct zg_refcount_memory *memory,
                                         int most);

#endif
