// Words of which some bits are known.

#ifndef ZG_KNOWN_H
#define ZG_KNOWN_H

#include "platform/base.h"

struct zg_known {
    uint64_t bits, known; // a set bit of `known`: that bit of `bits` is
};

#define ZG_ALL_BITS UINT64_MAX

ZG_INLINE struct zg_known zg_known_none(void) { return (struct zg_known){0, 0}; }
ZG_INLINE struct zg_known zg_known_word(uint64_t bits) { return (struct zg_known){bits, ZG_ALL_BITS}; }
ZG_INLINE bool zg_known_is_whole(struct zg_known value) { return value.known == ZG_ALL_BITS; }

ZG_INLINE uint64_t zg_known_mask(int bytes) { return bytes >= 8 ? ZG_ALL_BITS : (UINT64_C(1) << 8 * bytes) - 1; }
// The lowest bytes, and zeros.
ZG_INLINE struct zg_known zg_known_cut(struct zg_known value, int bytes) {
    uint64_t mask = zg_known_mask(bytes);
    return (struct zg_known){value.bits & mask, value.known | ~mask};
}
ZG_INLINE struct zg_known zg_known_and(struct zg_known a, struct zg_known b) {
    uint64_t known = (a.known & b.known) | (a.known & ~a.bits) | (b.known & ~b.bits);
    return (struct zg_known){a.bits & b.bits & known, known};
}
ZG_INLINE struct zg_known zg_known_or(struct zg_known a, struct zg_known b) {
    uint64_t known = (a.known & b.known) | (a.known & a.bits) | (b.known & b.bits);
    return (struct zg_known){(a.bits | b.bits) & known, known};
}
ZG_INLINE struct zg_known zg_known_xor(struct zg_known a, struct zg_known b) {
    uint64_t known = a.known & b.known;
    return (struct zg_known){(a.bits ^ b.bits) & known, known};
}
ZG_INLINE struct zg_known zg_known_sum(struct zg_known a, struct zg_known b) {
    return zg_known_is_whole(a) && zg_known_is_whole(b) ? zg_known_word(a.bits + b.bits) : zg_known_none();
}

#endif
