// Decodes addresses in the trap regions. Pure; for the runtime, and for readers of its memory.

#ifndef ZG_TRAP_PLACE_H
#define ZG_TRAP_PLACE_H

#include <stdint.h>

struct zg_traps {
    uint64_t base, bytes; // the whole reservation; 0 bytes: there is none
    uint64_t isa, side, words;
    // Each of the first 2^slots_shift slots of a class has its own range of trap addresses; later slots reuse these.
    uint32_t slots_shift;
    // Each word in a class's first 2^words_shift bytes has its own range of trap addresses; later words reuse these.
    uint32_t words_shift;
};

enum zg_trap_part { zg_trap_none, zg_trap_isa, zg_trap_side, zg_trap_word };

// Meaning of a trap address. `number` is the slot's number, and `byte` the word's distance from the class's first slot;
// both wrap around at the size of the region. `offset` is the distance from the trap pointer. Class numbers above the
// size classes stand for large blocks and for blocks in windows.
struct zg_trap_place {
    enum zg_trap_part part;
    uint32_t class_number;
    uint64_t number, byte;
    int64_t offset;
};
struct zg_trap_place zg_trap_place_of(const struct zg_traps *traps, uint64_t address);

#endif
