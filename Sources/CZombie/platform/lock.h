// A futex mutex without libc: 4 bytes, no owner, reset in the child of a fork.
// Slow path. docs/architecture/entry-threads-locks.md lists the lock ranks. Only threads inside the runtime (flag
// in_runtime) take locks, so a signal handler that allocates never waits for a lock of its own thread.

#ifndef ZG_LOCK_H
#define ZG_LOCK_H

#include "platform/arch.h"
#include "platform/base.h"

struct zg_lock {
    uint32_t word; // 0 free, 1 held, 2 held with waiters
};

void zg_lock_wait(struct zg_lock *lock);
void zg_lock_wake(struct zg_lock *lock);
// Returns false if the lock did not become free within `ns` nanoseconds.
bool zg_lock_take_within(struct zg_lock *lock, int64_t ns);

ZG_INLINE bool zg_lock_try(struct zg_lock *lock) {
    uint32_t free_word = 0;
    return __atomic_compare_exchange_n(&lock->word, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// Bytes of stack that may be used while a lock is held. zg_lock_take touches the stack that far down first: a program
// may recover from a stack overflow by a jump out of its handler, and no lock may be held then.
enum { ZG_LOCKED_STACK_BYTES = 768 };

ZG_INLINE void zg_lock_take(struct zg_lock *lock) {
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES);
    if (ZG_UNLIKELY(!zg_lock_try(lock))) zg_lock_wait(lock);
}

// For an inner lock, taken while another lock is held. Code that holds the inner lock uses less stack, so the stack
// checked for the outer lock is enough for both. A stack overflow here would leave the outer lock held.
ZG_INLINE void zg_lock_take_inside(struct zg_lock *lock) {
    ZG_ARCH_REACH_STACK(ZG_LOCKED_STACK_BYTES / 2);
    if (ZG_UNLIKELY(!zg_lock_try(lock))) zg_lock_wait(lock);
}

ZG_INLINE void zg_lock_drop(struct zg_lock *lock) {
    if (ZG_UNLIKELY(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)) zg_lock_wake(lock);
}

// Call only in the child of a fork, where no other thread exists. Writes only if needed, because the kernel copies a
// written page.
ZG_INLINE void zg_lock_reset(struct zg_lock *lock) {
    if (lock->word) lock->word = 0;
}

#endif
