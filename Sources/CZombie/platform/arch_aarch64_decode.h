// AArch64 instructions that touch memory or lead to what a register holds, taken apart: one word in, its parts out.

#ifndef ZG_ARCH_AARCH64_DECODE_H
#define ZG_ARCH_AARCH64_DECODE_H

#include "platform/base.h"

enum zg_a64_kind {
    zg_a64_other, // nothing of memory that is known of
    zg_a64_load,
    zg_a64_store,
    zg_a64_load_exclusive,
    zg_a64_store_exclusive, // `status` gets whether it was done
    zg_a64_modify,          // an atomic operation on `status` and memory; `first` gets what was there
    zg_a64_compare,         // as above, compare and swap: `status` is what is compared, `first` what is stored
    zg_a64_read,            // reads in another way: prefetches, the cache, tags, structures and scalable vectors
    zg_a64_write,
    zg_a64_copy, // of as many bytes as `status` holds, to what `base` holds from what `index` holds
    zg_a64_jump, // to what `base` holds
    zg_a64_call,
    zg_a64_return,
};

enum zg_a64_operation { // bits 15 and 14:12 of atomic operations
    zg_a64_add,
    zg_a64_clear,
    zg_a64_xor,
    zg_a64_set,
    zg_a64_signed_max,
    zg_a64_signed_min,
    zg_a64_unsigned_max,
    zg_a64_unsigned_min,
    zg_a64_swap,
};

enum zg_a64_update { zg_a64_stays, zg_a64_before, zg_a64_after }; // the base is written back

enum { ZG_A64_NONE = 255, ZG_A64_ZERO_OR_SP = 31, ZG_A64_UXTX = 3 };

struct zg_a64 {
    enum zg_a64_kind kind;
    uint8_t bytes;         // of each register; 0: not known
    uint8_t count;         // of registers: 1 or 2; of what reads or writes in another way 0
    uint8_t first, second; // registers with a value, ZG_A64_NONE: none. 31 is zero
    uint8_t status;
    uint8_t signed_to; // bytes that a loaded value is extended to with its sign; 0: with zeros
    uint8_t operation;
    bool is_vector;
    bool from_pc;        // the address is counted from the instruction
    uint8_t base, index; // ZG_A64_NONE: none. 31 as a base is sp
    uint8_t extend;      // of the index, as bits 15:13 of the instruction
    uint8_t shift;       // of the extended index
    uint8_t update;
    int64_t offset;
};

// Pure; any word.
struct zg_a64 zg_a64_decode(uint32_t word);

// Bits `from` to `from + count - 1`, with their sign.
ZG_INLINE int64_t zg_a64_signed(uint32_t word, int from, int count) {
    return (int64_t)((uint64_t)word << (64 - from - count)) >> (64 - count);
}
ZG_INLINE uint32_t zg_a64_bits(uint32_t word, int from, int count) {
    return word >> from & (uint32_t)((UINT64_C(1) << count) - 1);
}

#endif
