// Blocks that the program has locked in memory (mlock). A freed block keeps its address while the program's next blocks
// lie elsewhere, and locked pages count against RLIMIT_MEMLOCK: so a page is unlocked when the last locked block on it
// dies. Slow path; one lock, under which no other is taken.

#ifndef ZG_LOCKED_H
#define ZG_LOCKED_H

#include "platform/base.h"

extern uint32_t zg_locked_count;
// Whether any block is locked.
ZG_INLINE bool zg_locked_any(void) { return __atomic_load_n(&zg_locked_count, __ATOMIC_RELAXED) != 0; }

// The program has locked this memory. The kernel locks whole pages; of a locked page the live blocks are noted, and
// memory outside of the guarded heap as it is.
void zg_locked_add(uint64_t start, uint64_t end);
// The program has unlocked this memory.
void zg_locked_remove(uint64_t start, uint64_t end);
// A block that shares no page with others dies. Called before its pages are protected, because the kernel refuses
// guards on locked pages.
void zg_locked_died(uint64_t start, uint64_t end);
// The pages of a block have become the pages of another one, locked as they were.
void zg_locked_moved(uint64_t from, uint64_t to, uint64_t bytes);
// Unlocks the pages of blocks that died without a call of zg_locked_died, because they wait with others of their
// thread.
void zg_locked_sweep(void);
// All memory is unlocked. In the child of a fork, which inherits no locked memory, no other thread holds the lock.
void zg_locked_forget(bool is_child);

#endif
