// Reserves the trap regions and decodes addresses in them. Any context; no lock.

#include "zombies/trap.h"

#include <sys/resource.h>

#include "platform/os.h"

enum {
    SHIFT_MOST = 24,
    SHIFT_LEAST = 10,
    // words_shift = slots_shift + 6, because a slot has 64 bytes on average.
    WORDS_MORE = 6
};

struct zg_traps zg_traps;

bool zg_trap_init(void) {
    uint64_t limit = zg_os_address_space();
    for (uint32_t shift = SHIFT_MOST; shift >= SHIFT_LEAST; shift -= 2) {
        uint64_t isa = (uint64_t)ZG_TRAP_CLASSES << (shift + ZG_TRAP_ISA_SHIFT);
        uint64_t side = (uint64_t)ZG_TRAP_CLASSES << (shift + ZG_TRAP_SIDE_SHIFT);
        uint64_t words = (uint64_t)ZG_TRAP_CLASSES << (shift + WORDS_MORE - 3 + ZG_TRAP_WORD_SHIFT);
        uint64_t bytes = isa + side + words;
        if (limit != RLIM_INFINITY && bytes > limit / 16) continue;
        char *start = zg_os_reserve(bytes);
        if (!start) continue;
        zg_traps = (struct zg_traps){.base = (uint64_t)start,
                                     .bytes = bytes,
                                     .isa = (uint64_t)start,
                                     .side = (uint64_t)start + isa,
                                     .words = (uint64_t)start + isa + side,
                                     .slots_shift = shift,
                                     .words_shift = shift + WORDS_MORE};
        return true;
    }
    return false;
}

uint64_t zg_trap_first_isa(uint32_t class) {
    return zg_traps.isa + ((uint64_t) class << (zg_traps.slots_shift + ZG_TRAP_ISA_SHIFT)) + ZG_TRAP_ISA_OFFSET;
}
uint64_t zg_trap_first_side(uint32_t class) {
    return ZG_TRAP_SIDE_BITS(zg_traps.side + ((uint64_t) class << (zg_traps.slots_shift + ZG_TRAP_SIDE_SHIFT)));
}
uint64_t zg_trap_first_word(uint32_t class) {
    return zg_traps.words + ((uint64_t) class << (zg_traps.words_shift - 3 + ZG_TRAP_WORD_SHIFT)) + ZG_TRAP_WORD_OFFSET;
}

struct zg_trap_place zg_trap_place_of(const struct zg_traps *traps, uint64_t address) {
    struct zg_trap_place place = {.part = zg_trap_none};
    if (address - traps->base >= traps->bytes) return place;
    uint64_t slots = UINT64_C(1) << traps->slots_shift;
    if (address < traps->words) {
        bool isa = address < traps->side;
        uint32_t shift = isa ? ZG_TRAP_ISA_SHIFT : ZG_TRAP_SIDE_SHIFT;
        uint64_t inside = address - (isa ? traps->isa : traps->side), window = inside >> shift;
        place.part = isa ? zg_trap_isa : zg_trap_side;
        place.class_number = (uint32_t)(window >> traps->slots_shift);
        place.number = window & (slots - 1);
        place.offset = (int64_t)(inside & ((UINT64_C(1) << shift) - 1)) - (isa ? ZG_TRAP_ISA_OFFSET : 0);
        return place;
    }
    uint64_t inside = address - traps->words, word = inside >> ZG_TRAP_WORD_SHIFT;
    place.part = zg_trap_word;
    place.class_number = (uint32_t)(word >> (traps->words_shift - 3));
    place.byte = (word & ((UINT64_C(1) << (traps->words_shift - 3)) - 1)) << 3;
    place.offset = (int64_t)(inside & (ZG_TRAP_WORD_STEP - 1)) - ZG_TRAP_WORD_OFFSET;
    return place;
}

struct zg_trap_place zg_trap_decode(uint64_t address) {
    return zg_trap_place_of(&zg_traps, address);
}
