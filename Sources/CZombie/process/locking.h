// Implements mlockall and munlockall. If RLIMIT_MEMLOCK allows it, locks the program's mappings and its blocks;
// otherwise only the program's mappings, without the blocks. Never leaves mere reservations locked, which would count
// against the limit. Cold; no lock of its own. Reads /proc/self/maps.

#ifndef ZG_LOCKING_H
#define ZG_LOCKING_H

#include "platform/base.h"

struct zg_locking {
    int (*lock_all)(int flags); // libc's mlockall and munlockall
    int (*unlock_all)(void);
};

// Records that the kernel has locked or unlocked a range (mlock, munlock, or these calls through syscall()). `frame` as
// for zg_thread_enter.
void zg_locking_note(uint64_t start, uint64_t bytes, bool is_locked, const uint64_t *frame);
// Unlocks a freed block that libc served (settings/bypass.h).
void zg_locking_block_bypassed(uint64_t start, uint64_t bytes, const uint64_t *frame);
// Unlocks the pages of freed blocks that are still locked. Call if the kernel refuses mlock (RLIMIT_MEMLOCK), then call
// mlock again.
void zg_locking_unlock_freed(const uint64_t *frame);
// Records that the program has called mlockall or munlockall through syscall().
void zg_locking_note_all(bool are_locked, const uint64_t *frame);

// Like mlockall and munlockall: return -1 with errno on failure.
int zg_locking_lock_all(int flags, struct zg_locking next);
int zg_locking_unlock_all(struct zg_locking next);
// Forgets all memory locks: a child inherits neither them nor MCL_FUTURE.
void zg_locking_after_fork_in_child(void);

#endif
