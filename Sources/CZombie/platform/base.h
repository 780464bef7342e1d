// Basics for every file of the runtime: attributes, integer helpers, memory fences.
// No state, no libc.

#ifndef ZG_BASE_H
#define ZG_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// In a static executable, the runtime has its own sections, and the linker defines symbols for their ends. So readers
// of the process can distinguish the runtime's functions from the program's, and can skip the runtime's variables in a
// search for references.
#if defined(ZG_STATIC) && defined(__clang__)
#pragma clang section bss = "zg_bss" data = "zg_data" text = "zg_text"
#endif

#define ZG_LIKELY(x) __builtin_expect(!!(x), 1)
#define ZG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ZG_NOINLINE __attribute__((noinline))
#define ZG_INLINE static inline __attribute__((always_inline))
#define ZG_COLD __attribute__((noinline, cold))
#define ZG_UNUSED __attribute__((unused))
// Forces a tail call, which leaves no frame of the caller.
#if defined(__clang__)
#define ZG_MUST_TAIL __attribute__((musttail))
#else
#define ZG_MUST_TAIL
#endif
// Makes a function preserve nearly all registers, for the rare path of a hot function.
#if defined(__clang__)
#define ZG_KEEPS_REGISTERS __attribute__((noinline, preserve_most))
#else
#define ZG_KEEPS_REGISTERS ZG_NOINLINE
#endif
// Keeps a signal handler of the same thread from seeing stores out of program order.
#define ZG_SIGNAL_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define ZG_PAGE_SHIFT 12
#define ZG_PAGE_BYTES (UINT64_C(1) << ZG_PAGE_SHIFT)
#define ZG_ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

ZG_INLINE uint64_t zg_round_up(uint64_t value, uint64_t power_of_two) {
    return (value + power_of_two - 1) & ~(power_of_two - 1);
}
ZG_INLINE uint64_t zg_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
ZG_INLINE uint64_t zg_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
ZG_INLINE bool zg_is_power_of_two(uint64_t value) { return value && !(value & (value - 1)); }

ZG_INLINE uint64_t zg_load(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
ZG_INLINE void zg_store(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }

// Finalizer of a multiply-xorshift hash: every input bit reaches every output bit.
ZG_INLINE uint64_t zg_mix(uint64_t x) {
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x;
}

// Returns the next number of a random sequence that threads share.
ZG_INLINE uint64_t zg_random(uint64_t *state) {
    return zg_mix(zg_mix(__atomic_add_fetch(state, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED)));
}

#endif
