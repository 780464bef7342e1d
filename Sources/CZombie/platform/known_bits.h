// Known bits: arithmetic on words of which only some bits are known, as LLVM's KnownBits.

#ifndef ZG_KNOWN_BITS_H
#define ZG_KNOWN_BITS_H

#include "platform/base.h"

struct zg_known_bits {
    uint64_t bits, known; // bit i of `bits` is valid if bit i of `known` is set
};

#define ZG_ALL_BITS UINT64_MAX

ZG_INLINE struct zg_known_bits zg_known_bits_none(void) { return (struct zg_known_bits){0, 0}; }
ZG_INLINE struct zg_known_bits zg_known_bits_word(uint64_t bits) { return (struct zg_known_bits){bits, ZG_ALL_BITS}; }
ZG_INLINE bool zg_known_bits_is_whole(struct zg_known_bits value) { return value.known == ZG_ALL_BITS; }

ZG_INLINE uint64_t zg_known_bits_mask(int bytes) { return bytes >= 8 ? ZG_ALL_BITS : (UINT64_C(1) << 8 * bytes) - 1; }
// Returns the lowest `bytes` bytes, zero-extended: the bits above them are known to be 0.
ZG_INLINE struct zg_known_bits zg_known_bits_cut(struct zg_known_bits value, int bytes) {
    uint64_t mask = zg_known_bits_mask(bytes);
    return (struct zg_known_bits){value.bits & mask, value.known | ~mask};
}
ZG_INLINE struct zg_known_bits zg_known_bits_and(struct zg_known_bits a, struct zg_known_bits b) {
    uint64_t known = (a.known & b.known) | (a.known & ~a.bits) | (b.known & ~b.bits);
    return (struct zg_known_bits){a.bits & b.bits & known, known};
}
ZG_INLINE struct zg_known_bits zg_known_bits_or(struct zg_known_bits a, struct zg_known_bits b) {
    uint64_t known = (a.known & b.known) | (a.known & a.bits) | (b.known & b.bits);
    return (struct zg_known_bits){(a.bits | b.bits) & known, known};
}
ZG_INLINE struct zg_known_bits zg_known_bits_xor(struct zg_known_bits a, struct zg_known_bits b) {
    uint64_t known = a.known & b.known;
    return (struct zg_known_bits){(a.bits ^ b.bits) & known, known};
}
ZG_INLINE struct zg_known_bits zg_known_bits_sum(struct zg_known_bits a, struct zg_known_bits b) {
    return zg_known_bits_is_whole(a) && zg_known_bits_is_whole(b) ? zg_known_bits_word(a.bits + b.bits)
                                                                  : zg_known_bits_none();
}

#endif
