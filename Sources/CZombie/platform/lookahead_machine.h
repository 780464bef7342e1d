// State of the lookahead emulator: known bits of registers and memory. Also declares the functions of each processor.

#ifndef ZG_LOOKAHEAD_MACHINE_H
#define ZG_LOOKAHEAD_MACHINE_H

#include "platform/lookahead_emulator.h"
#include "platform/step.h"

enum { ZG_LOOKAHEAD_WRITTEN = 96, ZG_LOOKAHEAD_DOUBTS = 16 };

struct zg_lookahead_machine {
    struct zg_cpu cpu; // first member, because its `load` and `store` cast to this struct
    uint64_t first_sp; // stack pointer at the start
    int calls, returns, written_count, doubt_count;
    // For the function that enter_asking emulates: `calls` of its caller, and the stack pointer at its start (self_sp).
    int outer_calls;
    uint64_t self_sp;
    bool is_doubtful, uses_self;
    // Used if results and first arguments share a register (arm64). `is_result_left`: nothing has written the register
    // since a call returned, so it may hold a result, not an argument. For the function that enter_asking emulates:
    // `asks_result`: the caller left the object in the register as a result, and nothing has written it since;
    // `uses_result`: the function has read that result.
    bool is_result_left, asks_result, uses_result;
    struct {
        uint64_t place;
        struct zg_known_bits value;
    } written[ZG_LOOKAHEAD_WRITTEN];      // words that the emulated code has written
    uint64_t doubts[ZG_LOOKAHEAD_DOUBTS]; // stack addresses that skipped functions received and may have written to
    struct zg_lookahead found;
};

bool zg_lookahead_is_object(const struct zg_lookahead_machine *m, uint64_t address);
bool zg_lookahead_is_stack(const struct zg_lookahead_machine *m, uint64_t address);
// Returns the word at `place` as the emulated code sees it; unknown if it is unreadable or in unused stack.
struct zg_known_bits zg_lookahead_word(struct zg_lookahead_machine *m, uint64_t place);

void zg_lookahead_add_use(struct zg_lookahead_machine *m, struct zg_lookahead_use use);
// Adds an access to the property at `address` in the object. Ignores the object's first two words.
void zg_lookahead_add_property(struct zg_lookahead_machine *m, uint64_t address, bool is_write);

// `load` of struct zg_cpu; `cpu` is that of a struct zg_lookahead_machine. Adds a use and returns false if the load
// touches a property of the object: its value is unknown, and what follows depends on it.
bool zg_lookahead_load(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value);
// `store` of struct zg_cpu. Returns false if the store touches the object, unless it sets the counts to at least their
// initial value; adds a use if it writes a property. Also false if `written` is full.
bool zg_lookahead_store(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value);

// --- implemented by each processor -----------------------------------------------------------------------------------

// Register numbers, as instructions encode them.
struct zg_lookahead_registers {
    int arguments[10], argument_count; // the argument registers; the last is self
    int self, stack, result, task;     // `task` holds the context of an async function
    uint32_t changed;                  // bit n: calls do not preserve register n
};
extern const struct zg_lookahead_registers zg_arch_lookahead_registers;

// Calls zg_arch_step. On arm64, a store that only saves the self register does not mark this register in `used`.
enum zg_step zg_arch_lookahead_step(struct zg_lookahead_machine *m, const uint8_t *code, int count,
                                    struct zg_step_target *target);
// Returns the GOT slot through which the PLT stub at `start` jumps; 0 if the code is no PLT stub.
uint64_t zg_arch_stub_place(const struct zg_lookahead *lookahead, uint64_t start);
// Sets the machine's registers that are known and that calls preserve.
void zg_arch_lookahead_start(struct zg_lookahead_machine *m, const struct zg_registers *registers);

#endif
