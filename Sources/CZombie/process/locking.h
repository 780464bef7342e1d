// Locking memory (mlockall): the program's mappings, and what the runtime holds for its blocks; never address space that is
// merely reserved, which would count against RLIMIT_MEMLOCK. Cold; no lock. Reads /proc/self/maps.

#ifndef ZG_LOCKING_H
#define ZG_LOCKING_H

#include "platform/base.h"

struct zg_locking {
    int (*lock_all)(int flags); // libc's mlockall and munlockall
    int (*unlock_all)(void);
};

// Around mlock and munlock, whoever calls them. What the kernel has locked or unlocked is noted; and where it refuses (the limit), dead blocks are
// unlocked that were not yet, and it may be tried again. `frame` as for zg_thread_enter.
void zg_locking_note(uint64_t start, uint64_t bytes, bool is_locked, const uint64_t *frame);
// A block that was passed on to libc (settings/bypass.h) dies.
void zg_locking_note_passed(uint64_t start, uint64_t bytes, const uint64_t *frame);
void zg_locking_unlock_dead(const uint64_t *frame);
// mlockall and munlockall by their numbers.
void zg_locking_note_all(bool are_locked, const uint64_t *frame);

// As mlockall and munlockall: -1 with errno on failure.
int zg_locking_lock_all(int flags, struct zg_locking next);
int zg_locking_unlock_all(struct zg_locking next);
// Locks, and what was asked for later mappings, are not inherited.
void zg_locking_after_fork_in_child(void);

#endif
