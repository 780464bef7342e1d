// Executes one instruction on known bits of registers and memory, for the lookahead emulator and the refcount emulator.
// A result bit that depends on an unknown bit becomes unknown.

#ifndef ZG_STEP_H
#define ZG_STEP_H

#include "platform/arch.h"
#include "platform/known_bits.h"

enum { ZG_CPU_REGISTERS = 32, ZG_STEP_CODE = 16 };

// State of the emulated processor. It is the first member of each emulator's own struct, so that `load` and `store` can
// cast a pointer to the emulator's struct.
struct zg_cpu {
    // Indexed by the register number that instructions encode. A vector register consists of its low and high 64 bits.
    struct zg_known_bits registers[ZG_CPU_REGISTERS], vectors[ZG_CPU_REGISTERS][2];
    uint8_t flags, known_flags; // each arch_<cpu>_step.c defines the bits
    uint64_t pc;
    struct zg_known_bits thread; // thread pointer
    // Bit n: the last instruction read (`used`) or wrote (`set`) general register n. x86-64 leaves `set` 0.
    uint32_t used, set;
    // `load` and `store` access at most 8 bytes. If they return false, the emulation ends.
    bool (*load)(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value);
    bool (*store)(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value);
};

enum zg_step {
    zg_step_lost,  // the instruction is unsupported or truncated, or `load` or `store` returned false
    zg_step_next,  // executed; `pc` is the address of the next instruction to execute
    zg_step_trap,  // the instruction terminates the program (int3, ud2, brk, udf)
    zg_step_forks, // a branch on unknown bits: execution continues at `target` or at `pc`
    zg_step_calls, // a call; `pc` is the return address, which zg_arch_step_link passes to the function
    zg_step_jumps,
    zg_step_returns,
};

struct zg_step_target {
    struct zg_known_bits code;
    uint64_t place;   // address of the memory word from which a jump reads its target; 0 if unknown
    bool may_be_call; // the jump may be a tail call
};

// Executes the instruction at cpu->pc, whose first `count` bytes are at `code`; ZG_ARCH_INSTRUCTION_BYTES are always
// enough. Exclusive stores always succeed, as if no other thread ran.
enum zg_step zg_arch_step(struct zg_cpu *cpu, const uint8_t *code, int count, struct zg_step_target *target);
// Passes the return address to a called function: pushes it (x86-64) or writes it to x30 (AArch64). False if `store`
// returned false.
bool zg_arch_step_link(struct zg_cpu *cpu, uint64_t return_address);

#endif
