// Blocks that the program has locked in memory (mlock). Freed blocks stay where they are while the program's next ones lie elsewhere, and
// locked pages count against RLIMIT_MEMLOCK: so pages are unlocked when the last locked block on them dies. Slow path; one lock, under which no
// other is taken.

#ifndef ZG_LOCKED_H
#define ZG_LOCKED_H

#include "platform/base.h"

extern uint32_t zg_locked_count;
// Whether any block is locked.
ZG_INLINE bool zg_locked_any(void) { return __atomic_load_n(&zg_locked_count, __ATOMIC_RELAXED) != 0; }

// The program has locked, or unlocked, this memory. The kernel does so by pages; of what is locked, the live blocks are noted,
// and memory that is not of the guarded heap as it is.
void zg_locked_add(uint64_t start, uint64_t end);
void zg_locked_remove(uint64_t start, uint64_t end);
// The block that has this memory to itself dies. Before its pages are protected: the kernel refuses guards on locked ones.
void zg_locked_died(uint64_t start, uint64_t end);
// The pages of a block have become another's, locked as they were.
void zg_locked_moved(uint64_t from, uint64_t to, uint64_t bytes);
// The same as zg_locked_died for blocks that died without a word: they wait with others of their thread.
void zg_locked_sweep(void);
// All is unlocked; in the child of a fork, which inherits no locks, no other thread holds ours.
void zg_locked_forget(bool is_child);

#endif
