// Reads call frame information: the rules in an image's .eh_frame that lead from a frame to its caller. Format: LSB
// Core, "DWARF Extensions" (.eh_frame, .eh_frame_hdr), and DWARF 5, section 6.4. Reads mapped images only; no lock, no
// allocation. Hot path on a miss of the rule cache, and signal context.

#ifndef ZG_UNWIND_CFI_H
#define ZG_UNWIND_CFI_H

#include "images/module.h"
#include "platform/arch.h"

enum zg_cfi_how {
    zg_cfi_same,          // the register still holds the caller's value
    zg_cfi_undefined,     // not recoverable; for the return address: this is the outermost frame
    zg_cfi_at_offset,     // saved at CFA + value
    zg_cfi_is_offset,     // equals CFA + value
    zg_cfi_in_register,   // in register `value`
    zg_cfi_at_expression, // saved at the address that an expression computes
    zg_cfi_is_expression, // is computed by an expression
};

// Only 32 bits, because rows are computed on the program's stack, which may be small. 29 bits suffice: frames and
// tables are smaller than 256 MiB.
struct zg_cfi_rule {
    // Offset or register. For an expression: distance of its ULEB128 length, which precedes it, from the row's `table`.
    int32_t value : 29;
    uint32_t how : 3;
};

struct zg_cfi_row {
    struct zg_cfi_rule cfa; // zg_cfi_in_register: `cfa_register` + value; or zg_cfi_is_expression
    uint32_t cfa_register;
    struct zg_cfi_rule registers[ZG_ARCH_REGISTER_COUNT];
    uint32_t return_register;
    const uint8_t *table; // the image's .eh_frame_hdr
    bool signal_frame;    // the caller was interrupted: its pc is exact
};

// Finds the row for `pc`: an instruction, or one byte before a return address. False if there is no information.
bool zg_cfi_find_row(const struct zg_module *module, uint64_t pc, struct zg_cfi_row *row);

// Returns the start of the function that a frame description (FDE) in .eh_frame describes; 0 if it is malformed or
// describes none.
uint64_t zg_cfi_start_of(const uint8_t *frame);

// Reads one word of the stack being unwound. False if it is unreadable.
typedef bool (*zg_cfi_reader)(void *context, uint64_t address, uint64_t *word);

// Replaces the registers of a frame by its caller's. False for the outermost frame, or if a register or word that is
// needed is unknown.
bool zg_cfi_step(const struct zg_cfi_row *row, struct zg_registers *registers, zg_cfi_reader read, void *context);

#endif
