// Blocks that the program has locked in memory (mlock). Locked pages count against RLIMIT_MEMLOCK. Because freed blocks
// keep their addresses and new blocks get others, a page must be unlocked when the last locked block on it is freed.
// Slow path; one lock, under which no other is taken.

#ifndef ZG_LOCKED_H
#define ZG_LOCKED_H

#include "platform/base.h"

extern uint32_t zg_locked_count;
// Returns true if any block is locked.
ZG_INLINE bool zg_locked_any(void) { return __atomic_load_n(&zg_locked_count, __ATOMIC_RELAXED) != 0; }

// Records that the program has locked this memory. The kernel locks whole pages, so this records every live block in
// the range; a range outside the heap is recorded as it is.
void zg_locked_add(uint64_t start, uint64_t end);
// Records that the program has unlocked this memory.
void zg_locked_remove(uint64_t start, uint64_t end);
// Unlocks the pages of a freed block, except pages that hold other locked blocks. Call before its pages are protected,
// because the kernel refuses guard pages in locked memory.
void zg_locked_died(uint64_t start, uint64_t end);
// Records that pages were moved from one block to another and stay locked.
void zg_locked_moved(uint64_t from, uint64_t to, uint64_t bytes);
// Unlocks the pages of freed blocks for which zg_locked_died was not called, because their frees are still pending.
void zg_locked_sweep(void);
// Records that no memory is locked any more. `is_child`: in the child of a fork, which inherits no locked memory. The
// lock is then reset, because no other thread of the child holds it.
void zg_locked_forget(bool is_child);

#endif
