// Size classes of slabs: multiples of 16 up to 128 bytes, then four per doubling, up to 32 KiB. Larger blocks are
// spans.
// Pure functions; any context.

#ifndef ZG_SIZE_CLASS_H
#define ZG_SIZE_CLASS_H

#include "platform/base.h"

enum { ZG_CLASS_COUNT = 40 };
#define ZG_LARGEST_SLOT ((uint64_t)32768)

// Returns the smallest class whose slots hold `size` bytes (at most ZG_LARGEST_SLOT).
ZG_INLINE uint32_t zg_size_class(uint64_t size) {
    if (ZG_LIKELY(size - 1 < 128)) return (uint32_t)(size - 1) / 16;
    if (!size) return 0;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(size - 1); // 2^log < size <= 2^(log+1)
    return (log - 7) * 4 + ((uint32_t)((size - 1) >> (log - 2)) & 3) + 8;
}

ZG_INLINE uint32_t zg_class_bytes(uint32_t class) {
    if (class < 8) return (class + 1) * 16;
    uint32_t log = (class - 8) / 4 + 7, quarter = (class - 8) % 4 + 1;
    return (1u << log) + quarter * (1u << (log - 2));
}

// Returns how many slots of this size a magazine can hold: about 16 KiB, 4 to 64 slots.
ZG_INLINE uint32_t zg_magazine_slots(uint32_t bytes) {
    uint32_t slots = 16384 / bytes;
    return slots > 64 ? 64 : slots < 4 ? 4 : slots;
}

#endif
