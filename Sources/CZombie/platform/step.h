// One instruction, executed over registers and memory of which some bits are known: what both emulators share
// (lookahead_emulator, refcount_emulator). A bit that depends on an unknown one becomes unknown.

#ifndef ZG_STEP_H
#define ZG_STEP_H

#include "platform/arch.h"
#include "platform/known_bits.h"

enum { ZG_CPU_REGISTERS = 32, ZG_STEP_CODE = 16 };

// An emulator embeds the struct as the first member of its own, so that `load` and `store` can cast from one to the
// other.
struct zg_cpu {
    struct zg_known_bits registers[ZG_CPU_REGISTERS],
        vectors[ZG_CPU_REGISTERS][2]; // numbered as the processor encodes them
    uint8_t flags, known_flags;       // laid out by each arch_<cpu>_step.c
    uint64_t pc;
    struct zg_known_bits thread; // the thread pointer
    uint32_t used, set;          // bit n: the last instruction read, or wrote, register n; `set` is kept on arm64 alone
    // These move at most 8 bytes. False ends the emulation.
    bool (*load)(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value);
    bool (*store)(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value);
};

enum zg_step {
    zg_step_lost,  // the instruction is not understood or cut off, or a load or store returned false
    zg_step_next,  // the pc has moved
    zg_step_trap,  // the program ends here
    zg_step_forks, // an unknown branch: to `target` or to the pc, which has moved
    zg_step_calls, // the pc is the return address, which zg_arch_step_link hands to the function
    zg_step_jumps,
    zg_step_returns,
};

struct zg_step_target {
    struct zg_known_bits code;
    uint64_t place;   // of the word in memory that a jump takes its target from; 0: unknown
    bool may_be_call; // a jump that may lead to another function (a tail call)
};

// Executes the instruction at cpu->pc, of which `count` bytes are at `code`; more than ZG_ARCH_INSTRUCTION_BYTES are
// not needed. No other thread interferes: exclusive stores succeed.
enum zg_step zg_arch_step(struct zg_cpu *cpu, const uint8_t *code, int count, struct zg_step_target *target);
// Leaves the return address where a called function expects it. False: as `store`.
bool zg_arch_step_link(struct zg_cpu *cpu, uint64_t return_address);

#endif
