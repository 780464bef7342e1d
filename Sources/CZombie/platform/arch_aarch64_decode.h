// Decodes AArch64 instructions that access memory or branch to a register.

#ifndef ZG_ARCH_AARCH64_DECODE_H
#define ZG_ARCH_AARCH64_DECODE_H

#include "platform/base.h"

enum zg_a64_kind {
    zg_a64_other, // no memory access and no branch to a register, or unknown
    zg_a64_load,
    zg_a64_store,
    zg_a64_load_exclusive,
    zg_a64_store_exclusive, // `status` receives the result: 0 if stored
    zg_a64_modify,          // atomic operation of `status` on memory; `first` receives the old value
    zg_a64_compare,         // compare and swap: compares `status`, which receives the old value; stores `first`
    zg_a64_read,            // other reads: prefetches, cache maintenance, tags, SIMD structures, SVE and SME
    zg_a64_write,
    zg_a64_copy, // cpy: `base` holds the target address, `index` the source address, `status` the number of bytes
    zg_a64_jump, // jumps to the address in `base`
    zg_a64_call,
    zg_a64_return,
};

enum zg_a64_operation { // bits 15:12 of atomic memory operations
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

enum zg_a64_update { zg_a64_stays, zg_a64_before, zg_a64_after }; // write-back of the base: none, pre-index, post-index

enum { ZG_A64_NONE = 255, ZG_A64_ZERO_OR_SP = 31, ZG_A64_UXTX = 3 };

struct zg_a64 {
    enum zg_a64_kind kind;
    uint8_t bytes;         // size of each register; size of the access if `count` is 0; 0 if unknown
    uint8_t count;         // number of registers loaded or stored: 1 or 2; 0 for other kinds of access
    uint8_t first, second; // registers loaded or stored; ZG_A64_NONE if absent; 31 is the zero register
    uint8_t status;
    uint8_t signed_to; // size to which a loaded value is sign-extended; 0 if it is zero-extended
    uint8_t operation;
    bool is_vector;
    bool from_pc;        // the address is PC-relative
    uint8_t base, index; // ZG_A64_NONE if absent; for accesses, base 31 is sp
    uint8_t extend;      // extension of the index, as bits 15:13 of the instruction
    uint8_t shift;       // left shift of the extended index
    uint8_t update;
    int64_t offset;
};

// Decodes any word. Pure.
struct zg_a64 zg_a64_decode(uint32_t word);

// Returns bits `from` to `from + count - 1`, sign-extended.
ZG_INLINE int64_t zg_a64_signed(uint32_t word, int from, int count) {
    return (int64_t)((uint64_t)word << (64 - from - count)) >> (64 - count);
}
ZG_INLINE uint32_t zg_a64_bits(uint32_t word, int from, int count) {
    return word >> from & (uint32_t)((UINT64_C(1) << count) - 1);
}

#endif
