// Checks the arguments of libc's memory and string functions: whether a buffer lies in a freed block, or its block ends
// before the access does. Covers all blocks, isolated or not, because the block records are enough.
// The published functions (CZombiePublish/strings.c) call this before libc's function. Of each call site, the first
// calls are checked, then further ones within a share of the thread's time, then a few at intervals (zg_witness_renew).
// Only accesses count that the C standard makes certain; for memcmp and similar functions, only those up to the first
// difference, because correct programs pass lengths larger than their blocks.
// Any context. No lock and no system call, except for a finding, which enters the runtime. errno is kept.

#ifndef ZG_WITNESS_H
#define ZG_WITNESS_H

#include "platform/arch.h"
#include "platform/base.h"
#include "threads/thread.h"

// The range of addresses that are worth a check: that of the guarded heap. Before the start, all addresses: every call
// then takes the slow path, which works before this library is relocated. Empty if the option is off.
struct zg_witness_range {
    uint64_t low, bytes;
};
extern struct zg_witness_range zg_witness_range;
// Call when libc's functions are known, and the heap is ready.
void zg_witness_start(void);

// For each call site, hashed by its return address: number of calls that were checked; ZG_WITNESS_DONE: no more checks.
// All threads share the array. It is written for checked calls only, so that processors rarely exchange its cache
// lines.
enum { ZG_WITNESS_SITE_BITS = 12, ZG_WITNESS_DONE = 1 << 15 };
extern uint16_t zg_witness_sites[1 << ZG_WITNESS_SITE_BITS];

// Hot path: whether the pointer is worth a check.
ZG_INLINE bool zg_witness_concerns(const void *pointer) {
    return zg_arch_address((uint64_t)pointer) - zg_witness_range.low < zg_witness_range.bytes;
}

ZG_INLINE uint16_t *zg_witness_site(const void *caller) {
    uint32_t hash =
        (uint32_t)(uint64_t)caller * UINT32_C(0x9e3779b1); // Knuth's multiplicative hash: high bits vary most
    return &zg_witness_sites[hash >> (32 - ZG_WITNESS_SITE_BITS)];
}

// Hot path: whether calls that return to `caller` are to be checked.
ZG_INLINE bool zg_witness_is_due(const void *caller) {
    return __atomic_load_n(zg_witness_site(caller), __ATOMIC_RELAXED) < ZG_WITNESS_DONE;
}

// Lets a few call sites have a few more checks. Call now and then, in proportion to the program's work.
void zg_witness_renew(void);

// A call that is checked.
struct zg_witness {
    const char *name; // name of the function as in its manual page
    const uint64_t *frame;
    struct zg_thread *thread;
    uint64_t began; // ticks; 0: not charged
    bool has_found; // there was a finding: the rest of the call is not checked
};

// Call if zg_witness_is_due. Returns false if the call is not to be checked: the site's checks or the thread's time are
// used up, the runtime itself is the caller, or the runtime has not started. `frame` is the frame address of a function
// that returns to `caller`.
ZG_NOINLINE bool zg_witness_begin(struct zg_witness *witness, const char *name, const uint64_t *frame,
                                  const void *caller);
ZG_NOINLINE void zg_witness_end(const struct zg_witness *witness);

// Each function checks the accesses of one kind of libc function; the comments say what the libc function accesses.
// Sizes are in bytes. Never inlined: there are dozens of callers.
ZG_NOINLINE void zg_witness_copy(struct zg_witness *witness, void *to, const void *from, uint64_t bytes);
ZG_NOINLINE void zg_witness_fill(struct zg_witness *witness, void *to, uint64_t bytes);
// Reads both up to the first difference.
ZG_NOINLINE void zg_witness_compare(struct zg_witness *witness, const void *a, const void *b, uint64_t bytes);
// Reads up to the first `byte`.
ZG_NOINLINE void zg_witness_search(struct zg_witness *witness, const void *start, int byte, uint64_t bytes);
// Begins with the last byte.
ZG_NOINLINE void zg_witness_search_back(struct zg_witness *witness, const void *start, int byte, uint64_t bytes);

#define ZG_WITNESS_ANY UINT64_MAX // no limit
// Reads a string, up to `most` bytes.
ZG_NOINLINE void zg_witness_string(struct zg_witness *witness, const char *string, uint64_t most);
// Reads a string up to the first `byte`.
ZG_NOINLINE void zg_witness_search_string(struct zg_witness *witness, const char *string, int byte);
// Reads two strings up to the first difference, or `most` bytes. `folds`: upper and lower case may be equal.
ZG_NOINLINE void zg_witness_compare_strings(struct zg_witness *witness, const char *a, const char *b, uint64_t most,
                                            bool folds);
ZG_NOINLINE void zg_witness_find_string(struct zg_witness *witness, const char *start, const char *wanted);
// Reads a number in this base, up to the first byte that cannot belong to it.
ZG_NOINLINE void zg_witness_number(struct zg_witness *witness, const char *string, int base);
// Copies a string of up to `most` bytes and its terminator to `to`. `appends`: to the end of the string in `to`.
ZG_NOINLINE void zg_witness_copy_string(struct zg_witness *witness, char *to, const char *from, uint64_t most,
                                        bool appends);
// Like strncpy: writes exactly `bytes` bytes.
ZG_NOINLINE void zg_witness_copy_padded(struct zg_witness *witness, char *to, const char *from, uint64_t bytes);
// Reads a string of wide characters, and copies it to `to` (NULL: only reads it).
ZG_NOINLINE void zg_witness_wide_string(struct zg_witness *witness, wchar_t *to, const wchar_t *from);

#endif
