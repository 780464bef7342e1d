// A futex mutex that needs no libc: 4 bytes, no owner, re-initialised in the child of a fork.
// Runs on slow paths. Lock ranks stand in ARCHITECTURE.md; a lock is taken only by threads whose `busy` flag is set, so a
// signal handler that allocates never waits for a lock of its own thread.

#ifndef ZG_LOCK_H
#define ZG_LOCK_H

#include "platform/arch.h"
#include "platform/base.h"

struct zg_lock {
    uint32_t word; // 0 free, 1 held, 2 held and somebody waits
};

void zg_lock_wait(struct zg_lock *lock);
void zg_lock_wake(struct zg_lock *lock);
// False: it was held by others all the time.
bool zg_lock_take_within(struct zg_lock *lock, int64_t ns);

ZG_INLINE bool zg_lock_try(struct zg_lock *lock) {
    uint32_t free_word = 0;
    return __atomic_compare_exchange_n(&lock->word, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// How much stack is used while a lock is held, at most. A program may recover from a stack that runs over, by a jump out of its
// handler: nothing may be held then.
enum { ZG_LOCKED_STACK_BYTES = 768 };

ZG_INLINE void zg_lock_take(struct zg_lock *lock) {
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES);
    if (ZG_UNLIKELY(!zg_lock_try(lock))) zg_lock_wait(lock);
}

// Of a lock that is also taken while another one is held: what is done under it needs less, so that the room which the other one was taken
// with is enough for both. A stack that ran over here would leave the other one held.
ZG_INLINE void zg_lock_take_inside(struct zg_lock *lock) {
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES / 2);
    if (ZG_UNLIKELY(!zg_lock_try(lock))) zg_lock_wait(lock);
}

ZG_INLINE void zg_lock_drop(struct zg_lock *lock) {
    if (ZG_UNLIKELY(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)) zg_lock_wake(lock);
}

// Only in the child of a fork, where no other thread exists. A page that is not written is not copied.
ZG_INLINE void zg_lock_reset(struct zg_lock *lock) {
    if (lock->word) lock->word = 0;
}

#endif
