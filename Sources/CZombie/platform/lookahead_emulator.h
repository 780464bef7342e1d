// The lookahead emulator: executes code on known bits, to find out what an object is used for. The code begins behind a
// retain of the object, or with a load of the object's header.
// Pure: reads memory through `read`, and writes none.

#ifndef ZG_LOOKAHEAD_EMULATOR_H
#define ZG_LOOKAHEAD_EMULATOR_H

#include "platform/arch.h"

enum { ZG_LOOKAHEAD_USES = 12 };

// A use of the object: a call of a function with the object as self; or a property that is read, written, or whose
// address is passed to a function.
struct zg_lookahead_use {
    bool is_call, is_write;
    bool is_doubtful;   // an earlier function that was skipped may prevent this use
    uint64_t code;      // address of the called function; 0 if only its symbol is known
    const char *symbol; // symbol of the called function, a string of a loaded image; NULL if `code` is known
    uint64_t byte;      // offset of the property in the object, at least 16 (the object's header)
};

struct zg_lookahead {
    uint64_t object, bytes; // address and size of the object, at least 16 bytes
    // Assumed contents of the object's first two words: class and reference counts of a live object. The emulation ends
    // when the code lowers the counts below `counts`.
    uint64_t first_word, counts;
    uint64_t count_step; // what one strong reference adds to the counts
    uint64_t thread;     // thread pointer; 0 if unknown
    // The code begins with an instruction that loads a header word of the object, instead of behind a retain.
    bool is_at_load;
    // Code of the Swift runtime; 0 bytes if it is not a separate image. Its functions write to no object of the
    // program, so skipping one does not make later uses doubtful.
    uint64_t runtime, runtime_bytes;
    // Copies memory; returns the number of bytes that could be read.
    uint64_t (*read)(void *to, uint64_t from, uint64_t bytes);
    // Returns the symbol whose address the loader writes to the GOT slot at `place` of the image that contains `pc`;
    // NULL if `place` is no such slot.
    const char *(*called_through)(uint64_t pc, uint64_t place);
    // Results: the uses in the order of execution. The last use may be one with an unknown result that decides which
    // code runs next. A use may be part of the one before: a thunk calls a method, which reads a property.
    int use_count;
    struct zg_lookahead_use uses[ZG_LOOKAHEAD_USES];
};

// Emulates the code at `registers->pc`: the return address of a call that retained the object and returned it. Uses
// only registers that are known and that calls preserve; with `is_at_load`, all known registers. Ends after a bounded
// number of instructions, or earlier if an unknown value decides what happens next.
void zg_lookahead_run(const struct zg_registers *registers, struct zg_lookahead *lookahead);

#endif
