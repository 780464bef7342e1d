// Registers and memory of the lookahead emulator, of which some bits are known; and the processor's part of it.

#ifndef ZG_LOOKAHEAD_MACHINE_H
#define ZG_LOOKAHEAD_MACHINE_H

#include "platform/lookahead_emulator.h"
#include "platform/step.h"

enum { ZG_LOOKAHEAD_WRITTEN = 96, ZG_LOOKAHEAD_DOUBTS = 16 };

struct zg_lookahead_machine {
    struct zg_cpu cpu; // the first member: its load and store cast
    uint64_t first_sp;
    int calls, returns, written_count, doubt_count;
    int outer_calls;  // of the function whose self is in question
    uint64_t self_sp; // the stack pointer where that begins
    bool is_doubtful, uses_self;
    // Where results are returned in the register of the first argument: it was not set since a call; nor since the
    // function in question was called; that function uses it.
    bool is_result_left, asks_result, uses_result;
    struct {
        uint64_t place;
        struct zg_known_bits value;
    } written[ZG_LOOKAHEAD_WRITTEN];      // words that differ from memory
    uint64_t doubts[ZG_LOOKAHEAD_DOUBTS]; // where functions that were not followed may have written
    struct zg_lookahead found;
};

// A place in the object; a word of the stack; a word as it is now.
bool zg_lookahead_is_object(const struct zg_lookahead_machine *m, uint64_t address);
bool zg_lookahead_is_stack(const struct zg_lookahead_machine *m, uint64_t address);
struct zg_known_bits zg_lookahead_word(struct zg_lookahead_machine *m, uint64_t place);

void zg_lookahead_add_use(struct zg_lookahead_machine *m, struct zg_lookahead_use use);
// Of an address in the object; none of its first two words.
void zg_lookahead_add_property(struct zg_lookahead_machine *m, uint64_t address, bool is_write);

// As struct zg_cpu has them, whose machine it is. False where the object itself is touched: what follows depends on
// that.
bool zg_lookahead_load(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits *value);
// As above; also where too much was written. The object may be counted, but not below what it is counted at the start.
bool zg_lookahead_store(struct zg_cpu *cpu, struct zg_known_bits address, int bytes, struct zg_known_bits value);

// --- the processor's part
// ------------------------------------------------------------------------------------------------

// Numbers of registers.
struct zg_lookahead_registers {
    int arguments[10], argument_count; // self is the last
    int self, stack, result, task;     // `task`: the context of an asynchronous function
    uint32_t changed;                  // bit n: register n is not the same behind a call
};
extern const struct zg_lookahead_registers zg_arch_lookahead_registers;

// zg_arch_step, on arm64 without the use of a register that is merely saved.
enum zg_step zg_arch_lookahead_step(struct zg_lookahead_machine *m, const uint8_t *code, int count,
                                    struct zg_step_target *target);
// The place of the word that a stub of the procedure linkage table at `start` jumps through; 0: it is none.
uint64_t zg_arch_stub_place(const struct zg_lookahead *lookahead, uint64_t start);
// What calls preserve, as far as it is known.
void zg_arch_lookahead_start(struct zg_lookahead_machine *m, const struct zg_registers *registers);

#endif
