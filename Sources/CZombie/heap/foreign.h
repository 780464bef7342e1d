// Blocks that are not ours: made by libc (before us, past us, or because we could not) or by another allocator.
// An address is told apart without being dereferenced. Slow path; no lock.

#ifndef ZG_FOREIGN_H
#define ZG_FOREIGN_H

#include "platform/base.h"

// Allocation by libc: nested calls, exhausted heap. `alignment` 0 for malloc's own.
void *zg_foreign_allocate(uint64_t size, uint64_t alignment, bool zero);
// Whether what is not ours is libc's for sure, as far as it is a block at all.
bool zg_foreign_is_libc_alone(void);
// The same for blocks that are none of the program's: always by libc, which has to be alone, and not counted.
void *zg_foreign_allocate_bypassed(uint64_t size, uint64_t alignment, bool zero);
enum zg_foreign_owner { zg_foreign_nobody, zg_foreign_libc, zg_foreign_other };
// Who made the block at this address, which is not in our heap.
enum zg_foreign_owner zg_foreign_owner(uint64_t address);
void zg_foreign_free(void *address, enum zg_foreign_owner owner);
void *zg_foreign_reallocate(void *address, uint64_t size, enum zg_foreign_owner owner);
uint64_t zg_foreign_usable_size(void *address, enum zg_foreign_owner owner);
// What an address is that nobody made: "stack address", "global variable", "misaligned", "never allocated".
const char *zg_foreign_describe(uint64_t address);
// Finds libc's own functions: before anything else here.
void zg_foreign_find_libc(void);
// Decides, too, whether blocks may be ours at all (zg_bypass_mode).
void zg_foreign_init(void);
// Libc's heap makes itself ready at its first call, and takes for granted that there is only one thread: two that come first
// at once would share an arena that counts one, which libc ends the program for when both have ended. Without us the program's or the
// loader's first block does it. Start-up.
void zg_foreign_prepare(void);
// Says whether another allocator is there: in front of ours, so that its blocks are not guarded, or behind. Start-up; the end
// says what had to wait.
void zg_foreign_look(void);
void zg_foreign_look_at_end(void);

// Functions that an executable, or a library in front of ours, may define for itself while it takes the others from us.
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
// One of them is defined in front of ours.
bool zg_foreign_is_in_front(void);
// Ours was called, while everything is passed on. Where one in front has the same name, that is what called it: it hands on
// to us what it is asked, and from now on blocks may be ours. True once: when the answer changes zg_bypass_mode.
bool zg_foreign_is_reached(enum zg_foreign_function function);

// The program's own allocator: the one behind us in the search order, which is libc's unless a program brings another.
struct zg_next {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
    size_t (*usable_size)(void *);
};
extern struct zg_next zg_next;
// Libc's own, whoever publishes functions of these names besides.
extern struct zg_next zg_libc;
// Looks it up, before blocks are passed on to it. False where some of its functions are missing, or where libc has served
// blocks already that another allocator would be asked to free. Start-up.
bool zg_foreign_find_next(void);

#endif
