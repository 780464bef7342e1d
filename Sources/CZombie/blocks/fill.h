// Fills freed memory and finds changes in it. Hot path; no lock.
// Slots are aligned to 16 bytes and multiples of 16 bytes long; spans have any length.

#ifndef ZG_FILL_H
#define ZG_FILL_H

#include "include/zg_block.h"
#include "platform/base.h"
#include "settings/config.h"

typedef uint64_t zg_vector __attribute__((vector_size(16), may_alias));

// From this size on, free() finds out which pages of a block the program has touched, and fills only those.
#define ZG_SPARSE_LEAST ((uint64_t)16 << 10)

#define ZG_FILL_WORD (UINT64_C(0x0101010101010101) * ZG_FILL_FREED)

// Longer fills call memset: libc chooses faster instructions for them.
#define ZG_FILL_SMALL UINT64_C(128)

// From this length on, zg_fill_is_intact calls memcmp.
#define ZG_FILL_LONG UINT64_C(256)

// Returns how many bytes of a freed block of `bytes` bytes are filled.
ZG_INLINE uint64_t zg_fill_bytes(uint64_t bytes) {
    return zg_min(zg_round_up(bytes, 16), zg_config.fill_freed_bytes & ~UINT64_C(15));
}

// `bytes` is a multiple of 16.
ZG_INLINE void zg_fill_small(void *start, uint64_t bytes, uint64_t word) {
    zg_vector *at = start, *end = (void *)((char *)start + bytes);
    zg_vector value = {word, word};
    for (; end - at >= 4; at += 4) {
        at[0] = at[1] = at[2] = at[3] = value;
        // Keeps the compiler from calling memset, which costs more than the few stores.
        __asm__ volatile("" ::: "memory");
    }
    for (; at < end; at++) {
        *at = value;
        __asm__ volatile("" ::: "memory");
    }
}

// Fills any length.
ZG_INLINE void zg_fill(void *start, uint64_t bytes, uint8_t byte) {
    if (bytes && bytes <= ZG_FILL_SMALL && !(bytes & 15))
        zg_fill_small(start, bytes, UINT64_C(0x0101010101010101) * byte);
    else __builtin_memset(start, byte, bytes);
}

// Returns true if all bytes are the fill. `bytes` is a multiple of 16. From ZG_FILL_LONG bytes on, only the first 64
// are compared with the fill; memcmp, which is faster on long ranges, compares each later byte with the byte 64 before
// it.
ZG_INLINE bool zg_fill_is_intact(const void *start, uint64_t bytes) {
    if (bytes >= ZG_FILL_LONG) {
        if (__builtin_memcmp((const char *)start + 64, start, bytes - 64)) return false;
        bytes = 64;
    }
    const zg_vector *at = start, *end = (const void *)((const char *)start + bytes);
    zg_vector expected = {ZG_FILL_WORD, ZG_FILL_WORD}, changed = {0, 0};
    for (; end - at >= 4; at += 4)
        changed |= (at[0] ^ expected) | (at[1] ^ expected) | (at[2] ^ expected) | (at[3] ^ expected);
    for (; at < end; at++) changed |= *at ^ expected;
    return !(changed[0] | changed[1]);
}

#endif
