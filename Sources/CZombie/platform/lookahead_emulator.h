// What code does with an object from some instruction on: the processor's part of looking ahead of a fault. Pure:
// memory is read through `read`, nothing is written or executed.

#ifndef ZG_LOOKAHEAD_EMULATOR_H
#define ZG_LOOKAHEAD_EMULATOR_H

#include "platform/arch.h"

enum { ZG_LOOKAHEAD_USES = 12 };

// A call of a function with the object as its self, or a property whose place in the object is read, written or passed
// on.
struct zg_lookahead_use {
    bool is_call, is_write;
    bool is_doubtful;   // a function that was not followed may have decided otherwise
    uint64_t code;      // of the function; 0: only its symbol is known
    const char *symbol; // a constant of its image
    uint64_t byte;      // of the object; not of its first two words
};

struct zg_lookahead {
    uint64_t object, bytes; // bytes: at least 16
    uint64_t first_word,
        counts;          // what its first two words are taken to hold; it is done with when the second gets less
    uint64_t count_step; // what a reference adds to that
    uint64_t thread;     // what the thread pointer holds; 0: not known
    uint64_t runtime,
        // the code of the Swift runtime, where it is an image of its own: it writes to no object of others
        runtime_bytes;
    uint64_t (*read)(void *to, uint64_t from, uint64_t bytes);
    // Symbol of the function that is looked for when the code at `pc` first calls through this word; NULL where there
    // is none.
    const char *(*called_through)(uint64_t pc, uint64_t place);
    // Found: in the order in which they happen, up to the first that the rest depends on. All but the first may be the
    // work of those in front of them: a thunk leads to a method, a method to a property.
    int use_count;
    struct zg_lookahead_use uses[ZG_LOOKAHEAD_USES];
};

// Follows the code at `registers->pc`, where a call that retained the object has just returned it. Only registers in
// `known` count, and of those only the ones that calls preserve. Bounded; where it cannot tell what happens it ends.
void zg_lookahead_run(const struct zg_registers *registers, struct zg_lookahead *lookahead);

#endif
