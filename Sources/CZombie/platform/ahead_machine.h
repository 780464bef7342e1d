// Registers and memory of which some is known, for code that is followed to see what it does with an object; and the processor's part
// of following it. What is not known stays unknown, bit by bit.

#ifndef ZG_AHEAD_MACHINE_H
#define ZG_AHEAD_MACHINE_H

#include "platform/ahead.h"
#include "platform/known.h"

enum { ZG_AHEAD_REGISTERS = 32, ZG_AHEAD_WRITTEN = 96, ZG_AHEAD_DOUBTS = 16, ZG_AHEAD_CODE = 16 };

struct zg_ahead_machine {
    struct zg_known registers[ZG_AHEAD_REGISTERS], vectors[ZG_AHEAD_REGISTERS][2]; // as the processor numbers them
    uint8_t flags, known_flags;                                                    // as zg_arch_ahead_step has them
    uint64_t pc, first_sp;
    uint32_t used,
        set; // by the last instruction: bit n is register n; `used` not where it was merely saved. `set`: of results alone
    int calls, returns, written_count, doubt_count;
    int outer_calls;  // of the function whose self is in question
    uint64_t self_sp; // the stack pointer where that begins
    bool is_doubtful, uses_self;
    // Where results are returned in the register of the first argument: it was not set since a call; nor since the function in question
    // was called; that function uses it.
    bool is_result_left, asks_result, uses_result;
    struct {
        uint64_t place;
        struct zg_known value;
    } written[ZG_AHEAD_WRITTEN];      // words that differ from memory
    uint64_t doubts[ZG_AHEAD_DOUBTS]; // where functions that were not followed may have written
    struct zg_ahead found;
};

// A place in the object; a word of the stack; a word as it is now.
bool zg_ahead_is_object(const struct zg_ahead_machine *m, uint64_t address);
bool zg_ahead_is_stack(const struct zg_ahead_machine *m, uint64_t address);
struct zg_known zg_ahead_word(struct zg_ahead_machine *m, uint64_t place);

void zg_ahead_add_use(struct zg_ahead_machine *m, struct zg_ahead_use use);
// Of an address in the object; none of its first two words.
void zg_ahead_add_property(struct zg_ahead_machine *m, uint64_t address, bool is_write);

// At most 8 bytes. False where the object itself is touched: what follows depends on that.
bool zg_ahead_load(struct zg_ahead_machine *m, struct zg_known address, int bytes, struct zg_known *value);
// As above; also where too much was written. The object may be counted, but not below what it is counted at the start.
bool zg_ahead_store(struct zg_ahead_machine *m, struct zg_known address, int bytes, struct zg_known value);

// --- the processor's part ------------------------------------------------------------------------------------------------

// Numbers of registers.
struct zg_ahead_registers {
    int arguments[10], argument_count; // self is the last
    int self, stack, result, task;     // `task`: the context of an asynchronous function
    uint32_t changed;                  // bit n: register n is not the same behind a call
};
extern const struct zg_ahead_registers zg_arch_ahead_registers;

enum zg_ahead_step {
    zg_ahead_ends, // not understood, or ended by memory
    zg_ahead_next, // the pc has moved
    zg_ahead_dead_end,
    zg_ahead_forks, // to `target` or to the pc: that is not known
    zg_ahead_calls, // `target`; the pc is the return address
    zg_ahead_jumps,
    zg_ahead_returns,
};

struct zg_ahead_target {
    struct zg_known code;
    uint64_t place;   // of the word that a jump takes its target from; 0: it is not known
    bool may_be_call; // a jump to another function: a last call
};

// Does the instruction at m->pc, of which `count` bytes, ZG_AHEAD_CODE at most, are at `code`.
enum zg_ahead_step zg_arch_ahead_step(struct zg_ahead_machine *m, const uint8_t *code, int count,
                                      struct zg_ahead_target *target);
// The function that is called returns there. False: as zg_ahead_store.
bool zg_arch_ahead_link(struct zg_ahead_machine *m, uint64_t return_address);
// The place of the word that a stub of the procedure linkage table at `start` jumps through; 0: it is none.
uint64_t zg_arch_stub_place(const struct zg_ahead *ahead, uint64_t start);
// What calls preserve, as far as it is known.
void zg_arch_ahead_start(struct zg_ahead_machine *m, const struct zg_registers *registers);

#endif
