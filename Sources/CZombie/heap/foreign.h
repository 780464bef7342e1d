// Blocks that the runtime did not make: libc made them (before the runtime was loaded, past the runtime, or as its
// fallback), or another allocator did. Recognizes such an address without dereferencing it. Slow path; no lock.

#ifndef ZG_FOREIGN_H
#define ZG_FOREIGN_H

#include "platform/base.h"

// Allocates from libc, or from zg_next. Serves nested calls, and all calls when the heap is exhausted. The blocks count
// as unguarded. If `alignment` is 0, aligns like malloc.
void *zg_foreign_allocate(uint64_t size, uint64_t alignment, bool zero);
// Returns true if every block outside the guarded heap is libc's: no other allocator was found, and zg_bypass_mode is
// zg_bypass_none. Single threads may bypass the runtime nevertheless.
bool zg_foreign_is_libc_alone(void);
// Allocates for threads that bypass the runtime: always from libc, not counted. Requires zg_foreign_is_libc_alone.
void *zg_foreign_allocate_bypassed(uint64_t size, uint64_t alignment, bool zero);
enum zg_foreign_owner { zg_foreign_none, zg_foreign_libc, zg_foreign_other };
// Returns which allocator made the block at an address outside the guarded heap. zg_foreign_none: not a block.
enum zg_foreign_owner zg_foreign_owner(uint64_t address);
void zg_foreign_free(void *address, enum zg_foreign_owner owner);
void *zg_foreign_reallocate(void *address, uint64_t size, enum zg_foreign_owner owner);
uint64_t zg_foreign_usable_size(void *address, enum zg_foreign_owner owner);
// Describes an address that no allocator returned, such as "stack address", "global variable", "misaligned", "never
// allocated".
const char *zg_foreign_describe(uint64_t address);
// Finds libc's functions. Call before any other function of this file.
void zg_foreign_find_libc(void);
// Records the program break and decides whether blocks may be guarded at all (zg_bypass_mode).
void zg_foreign_init(void);
// Initializes libc's heap. The first call of libc's malloc must come from a single thread: two threads that make it at
// once would share an arena that counts one thread, and libc ends the program when both have exited. Without the
// runtime, the first block of the loader or the program initializes it. Start-up.
void zg_foreign_init_libc_heap(void);
// Reports another allocator: in front of the runtime in the symbol search order, where its blocks are not guarded, or
// behind the runtime. Start-up. The second function runs at exit and reports allocators in front that might have been
// wrappers.
void zg_foreign_report(void);
void zg_foreign_report_at_exit(void);

// Functions that an executable, or a library in front of the runtime, may define while all other functions are the
// runtime's.
// clang-format off
#define ZG_FOREIGN_FUNCTIONS(X)                                                                                                   \
    X(malloc) X(free) X(realloc) X(malloc_usable_size)                                                                 \
    X(calloc) X(memalign) X(aligned_alloc) X(posix_memalign) X(valloc) X(pvalloc)
// clang-format on
enum zg_foreign_function {
#define ZG_X(name) zg_foreign_function_##name,
    ZG_FOREIGN_FUNCTIONS(ZG_X)
#undef ZG_X
        zg_foreign_function_count
};
// Returns true if one of these functions is defined in front of the runtime.
bool zg_foreign_is_interposed(void);
// Call when the runtime's function is called while everything is bypassed. A function of that name in front of the
// runtime must have made the call, so it is a wrapper that forwards to the runtime, and blocks may be guarded from now
// on. Returns true once, when this changes zg_bypass_mode.
bool zg_foreign_note_forwarded(enum zg_foreign_function function);

// The program's own allocator: the next allocator behind the runtime in the search order. Usually libc's, unless the
// program brings another.
struct zg_next {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
    size_t (*usable_size)(void *);
};
extern struct zg_next zg_next;
// libc's own functions, even if other images export the same names.
extern struct zg_next zg_libc;
// Finds the allocator behind the runtime and puts it into zg_next, before blocks are bypassed to it. False if the
// allocator lacks functions, or if libc has already served blocks that the allocator would have to free. Start-up.
bool zg_foreign_find_next(void);

#endif
